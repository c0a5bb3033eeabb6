"""Input, operands and output inside larger buffers whose margins hold canaries and poison.

A changed canary is an ``out_of_bounds_write``. An output whose bits depend on the poison is an ``out_of_bounds_read``.
The probe sees dependence, not access: a kernel may read beyond its rows and discard the values, and a read beyond the
buffers is not seen. Outputs and workspaces are put in bands if Python code asks torch for them by name. An output that
C++ asked for may be caught on a GPU (see ``Hole``). Otherwise the trial is skipped, with the reason.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec
import torch

from oracles.formats import Bits, Format
from softcheck.calling.call import (
    Called,
    Placed,
    Returned,
    call_on_device,
    is_out_of_memory,
    on_host,
    place,
)
from softcheck.calling.operands import with_operands
from softcheck.cases.case import Layout
from softcheck.contract import FindingKind, Violation
from softcheck.operations.strides import once
from softcheck.probes.base import Setting, Subject, TrialTable
from softcheck.probes.helpers import call_placed, only, ordinary_rows, shapes, stopped
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import bytes_of, handing_out, nan_filled
from softcheck.probes.same_bits import Repeated, unlike

MARGIN = 1 << 16
"""Least bytes on either side: several tiles of any kernel, and a multiple of every alignment that kernels ask for."""
CANARIES = (0xC5, 0x7F)
"""Bytes of margins. As a number of any type the first is far below 0, and the second is large or NaN: no
probability."""
ORDINARY = -0.5
"""The number around rows where none is asked for."""

_ROUNDED_TO = 512
_LARGEST = 1 << 19
"""Largest size in bytes of a block. Three such blocks and more fit the 2 MiB segments that small blocks are cut
from."""
_TRIES = 12


def margin_bytes(columns: int, itemsize: int) -> int:
    """Bytes of a margin for rows of this width: more than twice the overrun of a block of the next power of two."""
    return max(MARGIN, 4 * columns * itemsize // MARGIN * MARGIN + MARGIN)


def place_in_bands(
    bits: Bits, fmt: Format, poison: float, device: torch.device, row_stride: int | None = None
) -> Placed:
    """Places a matrix with ``poison`` all around it: before it, behind it, and between its rows if they lie apart."""
    columns = bits.shape[1]
    stride = columns if row_stride is None else row_stride
    margin = margin_bytes(columns, fmt.itemsize) // fmt.itemsize
    return place(bits, fmt, Layout(offset=margin, row_stride=stride), device, around=poison, behind=margin)


@dataclass(slots=True)
class Bands:
    """A policy of ``poison.handing_out``: every tensor handed out lies between margins of one canary byte."""

    canary: int
    margin: int
    """Bytes on either side."""
    _placed: list[tuple[torch.Tensor, torch.Tensor, str]] = field(default_factory=list)
    """Each tensor with the whole of its storage as bytes, and whose it is."""

    def __call__(self, tensor: torch.Tensor, initialised: bool) -> torch.Tensor:  # noqa: FBT001 - a Policy
        """Returns the same tensor between canaries, with its contents if they are promised, and with NaN otherwise.

        Returns the tensor itself if memory does not suffice for another.
        """
        return self._between_canaries(tensor, "a tensor that torch handed out", initialised=initialised)

    def operands(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the operands of a call between canaries; the matrix has margins of its own."""
        return {
            name: self._between_canaries(each, f"the caller's {name}", initialised=True)
            for name, each in given.items()
            if name != "x" and isinstance(each, torch.Tensor)
        }

    def _between_canaries(self, tensor: torch.Tensor, whose: str, *, initialised: bool) -> torch.Tensor:
        size = tensor.untyped_storage().nbytes()
        body = -(-size // MARGIN) * MARGIN
        try:
            whole = torch.full((2 * self.margin + body,), self._byte(tensor), dtype=torch.uint8, device=tensor.device)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            # Memory that does not suffice for two copies is not the variant's fault.
            return tensor
        begin = self.margin // tensor.element_size() + tensor.storage_offset()
        inside = whole.view(tensor.dtype).as_strided(tensor.shape, tensor.stride(), begin)
        if initialised:
            place = once(tensor)
            inside[place].copy_(tensor[place])
        else:
            inside.fill_(float("nan") if tensor.is_floating_point() else 0)
        inside.requires_grad_(tensor.requires_grad)
        self._placed.append((inside.detach(), whole, whose))
        return inside

    def _byte(self, tensor: torch.Tensor) -> int:
        """The byte of a tensor's margins; of booleans true for one canary, and false for the other."""
        return self.canary >> 7 if tensor.dtype == torch.bool else self.canary

    def holds(self, output: torch.Tensor) -> bool:
        """True if an output lies in memory that was handed out between canaries."""
        pointer = output.untyped_storage().data_ptr()
        return any(whole.untyped_storage().data_ptr() == pointer for _, whole, _ in self._placed)

    def overrun(self) -> Violation | None:
        """Returns a violation if a byte outside the tensors changed.

        The byte lies in a margin, or between the elements of a strided tensor.
        """
        for inside, whole, whose in self._placed:
            seen, canary = whole.clone(), self._byte(inside)
            item, begin = inside.element_size(), inside.storage_offset()
            # As bytes, since some byte patterns are no valid number of some types.
            strides = (*(item * stride for stride in inside.stride()), 1)
            seen.as_strided((*inside.shape, item), strides, item * begin).fill_(canary)
            changed = torch.nonzero(seen != canary).flatten()
            if not changed.numel():
                continue
            first, last = (int(changed[i]) // item for i in (0, -1))
            before = f"{begin - first} elements before the beginning"
            where = before if first < begin else f"element {first - begin} after the beginning"
            value = bytes(bytes_of(whole)[first * item : (first + 1) * item].tolist()).hex()
            return _written(
                f"{whose}, of shape {list(inside.shape)}, {changed.numel()} bytes from {where} to element {last - begin}: "
                f"bytes {value} at the first",
                canary,
                count=len({int(i) // item for i in changed[:4096].tolist()}),
            )
        return None


def _written(what: str, canary: int, count: int) -> Violation:
    message = f"wrote outside {what}; expected the canary {canary:#x} to be left alone"
    return Violation(FindingKind.OUT_OF_BOUNDS_WRITE, message, count=count)


class InBands(NamedTuple):
    """A call, and the margins around the tensors that torch handed out and around the operands, the matrix apart."""

    returned: Returned
    handed_out: Bands
    lent: Bands


def call_in_bands(
    subject: Subject,
    bits: Bits,
    *,
    around: float = ORDINARY,
    gap: int = 0,
    canary: int = CANARIES[0],
    of_operands: int | None = None,
) -> InBands:
    """Calls a variant on rows with the number ``around`` them and ``gap`` elements between them.

    Allocations always lie between margins, here of ``canary`` bytes, so that a store beyond one damages nothing in this process.
    Operands do where ``of_operands`` is a byte.
    """
    fmt, columns = subject.setting.fmt, bits.shape[1]
    placed = place_in_bands(bits, fmt, around, subject.device, columns + gap)
    margin = margin_bytes(columns, fmt.itemsize)
    handed_out, lent = Bands(canary, margin), Bands(of_operands or 0, margin)
    function, operation = subject.variant.function, subject.variant.operation
    if of_operands is not None:
        function = with_operands(function, placed.view, lent.operands)
    with nan_filled(), handing_out(handed_out):
        return InBands(call_on_device(function, placed, operation), handed_out, lent)


class Hole:
    """A free block between two blocks of the same size that hold one byte everywhere, for memory that C++ asks torch's CUDA allocator for.

    The allocator cuts small blocks off one segment, side by side, and hands out the free block that fits best: a block of
    exactly the size. Source: the description of torch.cuda's caching allocator in PyTorch's notes on CUDA semantics. The
    address of a tensor shows whether it lies in the hole, so nothing is claimed if the allocator chose another block.
    """

    def __init__(self, size: int, canary: int, device: torch.device) -> None:
        """Looks for three blocks of ``size`` bytes side by side and frees the middle one; there may be none."""
        self._canary, self._size = canary, size
        self._address: int | None = None
        self._beside: list[torch.Tensor] = []
        rounded = -(-size // _ROUNDED_TO) * _ROUNDED_TO
        tries = _TRIES if device.type == "cuda" and 0 < rounded <= _LARGEST else 0
        made = [torch.full((rounded,), canary, dtype=torch.uint8, device=device) for _ in range(tries)]
        # The other blocks are kept: if they were freed, they would fit as well as the hole.
        self._blocks = {block.data_ptr(): block for block in made}
        for address in sorted(self._blocks):
            sides = [self._blocks.get(address + rounded * side) for side in (-1, 1)]
            if all(side is not None for side in sides):
                self._address, self._beside = address, [side for side in sides if side is not None]
                del self._blocks[address]
                return

    def holds(self, output: torch.Tensor) -> bool:
        """True if a tensor lies in the hole."""
        return output.data_ptr() == self._address

    def overrun(self) -> Violation | None:
        """Returns a violation if a byte beside the hole changed."""
        changed = sum(int((block != self._canary).sum()) for block in self._beside)
        what = f"the output's {self._size} bytes: {changed} bytes of the memory beside it changed"
        return _written(what, self._canary, changed) if changed else None


_GAP = 7
"""Elements between rows that lie apart: an odd number, so that rows begin at every alignment."""
_NO_BANDS = (
    "guard bands around the output: its memory did not come from torch.empty or another such function that Python code "
    "calls by name"
)
_OUTPUT, _OPERANDS, _GAPS = "output", "operands", "gaps"


def _shapes(setting: Setting) -> Iterator[tuple[str, tuple[str, int, int]]]:
    """Bands around torch's allocations, around the input and operands, and between its rows if strided layouts are declared."""
    wanted = {_OUTPUT: shapes(setting), "input": shapes(setting)}
    if "strided" in setting.declaration.layouts:
        wanted[_GAPS] = shapes(setting) if setting.on_gpu else shapes(setting)[:1]
    if setting.operation.arguments is not None:
        wanted[_OPERANDS] = shapes(setting)
    for where, asked in wanted.items():
        yield from ((f"{where}/{rows}x{columns}", (where, rows, columns)) for rows, columns in asked)


def _in_bands(subject: Subject, asked: tuple[str, int, int]) -> Iterator[Outcome | None]:
    """Calls the variant between margins, and again with something else in those that the trial is for."""
    (where, rows, columns), fmt = asked, subject.setting.fmt
    bits = ordinary_rows(rows, columns, fmt, subject.setting.seed)
    usual, others = _ways(where, fmt.max)
    made = call_in_bands(subject, bits, **usual)
    if made.returned.output is None:
        yield stopped(made.returned)
        return
    watched = {_OUTPUT: made.handed_out, _GAPS: made.handed_out, _OPERANDS: made.lent}.get(where)
    overrun = None if watched is None else watched.overrun()
    # The output may be written with the input's strides, and so overrun. An overrun on packed rows too is for other trials.
    if overrun is not None and not (where == _GAPS and call_in_bands(subject, bits).handed_out.overrun() is not None):
        yield Outcome(violations=(overrun,))

    def again(way: dict[str, Any]) -> Called:
        return on_host(call_in_bands(subject, bits, **way).returned, fmt)

    violations = only(made.returned.violations, FindingKind.OUT_OF_BOUNDS_WRITE)
    plain = Repeated(partial(again, usual), on_host(made.returned, fmt))
    for message, way in others.items():
        other = Repeated(partial(again, way))
        ended = unlike(plain, other, FindingKind.OUT_OF_BOUNDS_READ, message, fmt, inputs=bits)
        if ended is not None:
            yield msgspec.structs.replace(ended, violations=(*violations, *ended.violations))
    if where == _OUTPUT and not made.handed_out.holds(made.returned.output):
        yield _in_a_hole(subject, bits)
    yield Outcome(violations=violations)


PROBE = TrialTable(_shapes, _in_bands)


def _ways(where: str, largest: float) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Returns what the margins hold at first, and what they hold instead, by words for an output that changes with it."""
    # Workspaces lie between margins too: a value read beyond one changes with the canary.
    around = {_OUTPUT: ("canary", "tensors that torch handed out"), _OPERANDS: ("of_operands", "operands")}
    if where in around:
        name, whose = around[where]
        message = f"the output changes with what lies around the {whose}"
        return {name: CANARIES[0]}, {message: {name: CANARIES[1]}}
    gap = {"gap": _GAP} if where == _GAPS else {}
    poisons = {"NaN": float("nan"), "the largest finite value": largest}
    said = "the output changes when the memory around the input holds {} in place of {}"
    return gap, {said.format(name, ORDINARY): {**gap, "around": poison} for name, poison in poisons.items()}


def _in_a_hole(subject: Subject, bits: Bits) -> Outcome:
    """Does the same for an output that C++ asked memory for, if it comes to lie between canaries."""
    placed = place_in_bands(bits, subject.setting.fmt, ORDINARY, subject.device)
    hole = Hole(bits.nbytes, CANARIES[0], subject.device)
    returned = call_placed(subject, placed)
    if returned.output is None:
        return stopped(returned)
    if not hole.holds(returned.output):
        return Outcome(skipped=_NO_BANDS)
    overrun = hole.overrun()
    return Outcome() if overrun is None else Outcome(violations=(overrun,))
