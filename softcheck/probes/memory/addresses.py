"""Elements beyond 2^31: rows and columns 2^30 elements apart, and dense tensors of more than 2^31 elements.

If memory allows, decoys lie 2^32 elements before the far elements, where a wrapped 32-bit offset points. A kernel with
such offsets then reads and writes decoys, and the finding says so, instead of faulting. Decoys lie far above the other
logits, since softmax does not change with a maximum that is a little too large. Under the interpreter the strided inputs
lie in virtual memory, of which only the used pages exist.
"""

import sys
from collections.abc import Sequence
from functools import partial

import msgspec
import numpy as np
import torch

from oracles.formats import Bits, Format, decode, encode
from softcheck.calling.call import TORCH_DTYPES, Placed, Returned, call_on_device, is_out_of_memory, to_bits, to_tensor
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import FindingKind, Violation
from softcheck.operations.strides import untaken
from softcheck.probes.allocation import handing_out
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import (
    call_on,
    free_bytes,
    named_operands,
    only,
    ordinary_rows,
    prefixed,
    stopped,
    wrong_values,
)
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled

_FAR = 2**30
"""Stride in elements. It is below 2^31, so that Triton passes it in 32 bits, and its double is not."""
_LIMIT = 2**31
_WRAP = 2**32
_DENSE_COLUMNS = 1024
_BLOCK_ROWS = 1024
_BEYOND = 2**23
"""Elements of a dense tensor beyond 2^31: of a transposed one the whole last column lies there."""
_CANARY = 0xC5
_ABOVE = 1600.0
"""Distance of decoys above the other logits: exponentials vanish beside theirs in every format."""


class Addresses(Probe):
    """Checks that a variant computes offsets in 64 bits."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Far rows and columns if strided layouts are declared; unless ``quick``, dense tensors, which need a GPU."""
        most = setting.declaration.max_elements
        if most is not None and most <= _LIMIT:
            return []
        is_strided = "strided" in setting.declaration.layouts
        is_dense = setting.takes(_DENSE_COLUMNS) and not setting.quick
        columns = 129 if setting.takes(129) else 1
        of_rows = partial(_far, shape=(3, columns), strides=(_FAR, 1), near=Layout(row_stride=columns + 7))
        of_columns = partial(_far, shape=(2, 3), strides=(8, _FAR), near=Layout(row_stride=8, column_stride=32))
        wanted = [
            Trial("row-stride-2^30", of_rows) if is_strided else None,
            Trial("column-stride-2^30", of_columns) if is_strided and setting.takes(3) else None,
            Trial("dense-2^31", partial(_dense, is_transposed=False)) if is_dense else None,
            Trial("dense-transposed-2^31", partial(_dense, is_transposed=True)) if is_dense and is_strided else None,
        ]
        return [trial for trial in wanted if trial is not None]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Makes one trial; one call if all is well."""
        try:
            outcome: Outcome = trial.parameters(subject)
        except (RuntimeError, MemoryError, OSError) as error:
            if not isinstance(error, OSError) and not is_out_of_memory(error):
                raise
            return Outcome(skipped=f"elements beyond 2^31: the memory could not be had: {error}")
        finally:
            if subject.device.type == "cuda":
                # These gigabytes would otherwise stay in the caching allocator, out of reach of other processes.
                torch.cuda.empty_cache()
        return outcome


def _caused(subject: Subject, bits: Bits, output: Bits, returned: Returned, near: Layout) -> list[Violation]:
    """Returns the first violation that the same rows near by, in a layout of the same order, don't have."""
    wrong = wrong_values(subject, bits, output, returned)
    alone = call_on(subject, bits, near) if wrong else None
    if alone is None or alone.output is None:
        return []
    also_alone = {v.kind for v in wrong_values(subject, bits, alone.output, alone)}
    return [v for v in wrong if v.kind not in also_alone][:1]


def _far(subject: Subject, shape: tuple[int, int], strides: tuple[int, int], near: Layout) -> Outcome:
    """Judges rows or columns that lie far apart; ``near`` has the same order of elements and small strides."""
    fmt = subject.setting.fmt
    bits = ordinary_rows(*shape, fmt, subject.setting.seed)
    places = np.add.outer(strides[0] * np.arange(shape[0]), strides[1] * np.arange(shape[1]))
    # A margin for kernels that take the rows for packed and so read on from the first row.
    extent = int(places.max()) + 1 + bits.size
    storage = _storage(extent + _LIMIT, extent, fmt, subject.device)
    if isinstance(storage, str):
        return Outcome(skipped=storage)
    base = _LIMIT if storage.numel() > extent else 0
    nan = encode(np.array([np.nan]), fmt)[0]
    storage[base : base + bits.size] = to_tensor(np.full(bits.size, nan, dtype=fmt.storage), fmt, subject.device)
    wrapped = _decoys(storage, places, base, subject)
    view = storage.as_strided(shape, strides, base)
    view.copy_(to_tensor(bits, fmt, subject.device))
    returned = _call(subject, view)
    if returned.output is None:
        return _unless_out_of_memory(returned)
    output = to_bits(returned.output, fmt)
    caused = _caused(subject, bits, output, returned, near)
    if caused and wrapped is not None and not wrong_values(subject, wrapped, output, returned):
        kind, why = FindingKind.OUT_OF_BOUNDS_READ, "32-bit offsets wrap: elements were read 2^32 before their place"
    else:
        kind, why = FindingKind.WRONG_LAYOUT, "elements beyond 2^31 were not read from their place"
    names = named_operands(subject.variant.function, subject.setting.operation)
    circumstances = f"right with strides {near.strides(shape[1])} of {names}, wrong with {strides}; {why}"
    found = [msgspec.structs.replace(v, kind=kind, share=None) for v in caused]
    return Outcome(violations=prefixed(found, circumstances))


def _decoys(storage: torch.Tensor, places: np.ndarray, base: int, subject: Subject) -> Bits | None:
    """Puts other values where offsets that wrap at 32 bits point to.

    Returns the matrix that a kernel with wrapped offsets sees, or None if the decoys don't fit into the storage.
    """
    wrapping = np.where(places >= _LIMIT, places - _WRAP, places) + base
    if wrapping.min() < 0:
        return None
    fmt = subject.setting.fmt
    rows, columns = places.shape
    other = _decoy_rows(rows, columns, fmt, subject.setting.seed + 1)
    values = to_tensor(other.ravel(), fmt, subject.device)
    for i in np.flatnonzero(places >= _LIMIT):
        storage[int(wrapping.ravel()[i])] = values[int(i)]
    true = ordinary_rows(rows, columns, fmt, subject.setting.seed)
    seen: Bits = np.where(places >= _LIMIT, other, true)
    return seen


def _decoy_rows(rows: int, columns: int, fmt: Format, seed: int) -> Bits:
    return encode(decode(ordinary_rows(rows, columns, fmt, seed), fmt) + _ABOVE, fmt)


def _storage(best: int, least: int, fmt: Format, device: torch.device) -> torch.Tensor | str:
    """Allocates uninitialised elements: ``best`` many if memory allows, else ``least``.

    Otherwise returns the reason.
    """
    dtype = TORCH_DTYPES[fmt.name]
    if device.type != "cuda":
        memory = untaken(best, dtype)
        why = f"elements beyond 2^31: on {sys.platform} memory can't be asked for without being taken"
        return why if memory is None else memory
    torch.cuda.empty_cache()
    free = free_bytes(device)
    for count in (best, least):
        # Half a GiB is left for the variant.
        if count * fmt.itemsize + 2**29 <= free:
            return torch.empty(count, dtype=dtype, device=device)
    return _too_little(least * fmt.itemsize, free)


def _too_little(needed: int, free: int) -> str:
    return f"elements beyond 2^31: need {needed / 1e9:.1f} GB of device memory, {free / 1e9:.1f} GB are free"


def _call(subject: Subject, view: torch.Tensor) -> Returned:
    """Calls the variant without comparing the gigabytes around the input."""
    nothing = torch.empty(0, dtype=view.dtype, device=view.device)
    with nan_filled():
        return call_on_device(
            subject.variant.function, Placed(view, nothing, subject.setting.fmt), subject.setting.operation
        )


def _unless_out_of_memory(returned: Returned) -> Outcome:
    if only(returned.violations, FindingKind.OUT_OF_MEMORY):
        return Outcome(skipped=f"elements beyond 2^31: {returned.violations[0].message}")
    return stopped(returned)


def _dense(subject: Subject, *, is_transposed: bool) -> Outcome:
    """Judges a dense tensor of two blocks of rows; transposed, its last column lies beyond 2^31.

    One block is repeated, the other one ends the tensor beyond element 2^31, and a decoy lies where a wrapped offset
    points.
    """
    fmt, device = subject.setting.fmt, subject.device
    if device.type != "cuda":
        return Outcome(skipped="a dense tensor of more than 2^31 elements: needs a GPU; it takes 2^21 programs")
    # Input and output, each with as much memory in front of it, and the output as torch first handed it out. A variant
    # that keeps more runs out of memory, which skips the trial.
    needed = 4 * _WRAP * fmt.itemsize
    torch.cuda.empty_cache()
    if needed > (free := free_bytes(device)):
        return Outcome(skipped=_too_little(needed, free))
    before, beyond = (ordinary_rows(_BLOCK_ROWS, _DENSE_COLUMNS, fmt, subject.setting.seed + i) for i in range(2))
    decoy = _decoy_rows(_BLOCK_ROWS, _DENSE_COLUMNS, fmt, subject.setting.seed + 2)
    storage = torch.empty(_WRAP + _BEYOND, dtype=TORCH_DTYPES[fmt.name], device=device)
    storage[:_BEYOND].view(-1, *decoy.shape).copy_(to_tensor(decoy, fmt, device))
    view = storage[_LIMIT:].view(-1, _DENSE_COLUMNS)
    if is_transposed:
        view = storage[_LIMIT:].view(_DENSE_COLUMNS, -1).t()
    view.view(-1, _BLOCK_ROWS, _DENSE_COLUMNS)[:-1].copy_(to_tensor(before, fmt, device))
    view[-_BLOCK_ROWS:] = to_tensor(beyond, fmt, device)
    front = _Front()
    with handing_out(front):
        returned = _call(subject, view)
    if returned.output is None:
        return _unless_out_of_memory(returned)
    overrun = front.overrun()
    if overrun:
        return Outcome(violations=overrun)
    rows, chosen = view.shape[0], np.r_[0:8, _BLOCK_ROWS - 8 : _BLOCK_ROWS]
    # In the same order of elements: what is wrong of few transposed rows too is not caused by their number.
    near = Layout(row_stride=1, column_stride=len(chosen)) if is_transposed else PACKED
    among = f"{_LIMIT + _BEYOND:,} dense elements{', transposed' if is_transposed else ''}"
    for inputs, first in ((before, 0), (before, rows // _BLOCK_ROWS // 2 * _BLOCK_ROWS), (beyond, rows - _BLOCK_ROWS)):
        output = to_bits(returned.output[first : first + _BLOCK_ROWS][torch.from_numpy(chosen)], fmt)
        caused = _caused(subject, inputs[chosen], output, returned, near)
        if caused:
            return Outcome(violations=prefixed(caused, f"right by themselves, wrong from row {first} on of {among}"))
    return Outcome()


class _Front:
    """A policy of ``allocation.handing_out`` that puts 2^31 elements in front of each large tensor.

    This memory begins with canaries.
    """

    def __init__(self) -> None:
        self._canaries: list[torch.Tensor] = []

    def __call__(self, tensor: torch.Tensor, initialised: bool) -> torch.Tensor:  # noqa: FBT001 - a Policy
        if initialised or tensor.numel() <= _LIMIT:
            return tensor
        if not (tensor.is_contiguous() or (tensor.dim() > 1 and tensor.mT.is_contiguous())):
            return tensor
        whole = torch.empty(_LIMIT + tensor.numel(), dtype=tensor.dtype, device=tensor.device)
        canaries = whole[:_BEYOND].view(torch.uint8)
        canaries.fill_(_CANARY)
        self._canaries.append(canaries)
        return whole[_LIMIT:].as_strided(tensor.shape, tensor.stride())

    def overrun(self) -> tuple[Violation, ...]:
        """Returns a violation if something was written 2^32 elements before its place."""
        changed = sum(int((canaries != _CANARY).sum()) for canaries in self._canaries)
        if not changed:
            return ()
        message = (
            f"32-bit offsets wrap: {changed} bytes were written 2^32 elements before the output's elements beyond 2^31; "
            "expected them in the output"
        )
        return (Violation(FindingKind.OUT_OF_BOUNDS_WRITE, message, count=changed),)


PROBE = Addresses()
