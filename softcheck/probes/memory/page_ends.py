"""Inputs and operands at the first and the last mapped address: a read beyond them faults, whatever becomes of the value.

``guard_bands`` sees that an output depends on what lies beyond them. A kernel that reads there and drops the value,
as behind a mask that is one column too wide, gives right answers until its input is the last tensor of a page. Then
the process ends, or a GPU reports an illegal access.

On the CPU pages without any right lie around the tensor's. On a GPU the driver's virtual memory management maps physical
memory into the middle of a larger range of addresses (CUDA driver API, section "Virtual Memory Management"): what lies
around it has no memory behind it.
"""

import ctypes
import mmap
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import msgspec
import torch

from softcheck.calling.call import Placed, place
from softcheck.calling.operands import with_operands
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import FindingKind
from softcheck.probes.base import Setting, Subject, Trial, TrialTable
from softcheck.probes.helpers import call_placed, only, ordinary_rows, prefixed
from softcheck.probes.outcome import Conclusion, Outcome

_PINNED, _ON_DEVICE, _READ_AND_WRITE = 1, 1, 3
"""CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE and CU_MEM_ACCESS_FLAGS_PROT_READWRITE."""

_NO_RIGHTS = 0
"""PROT_NONE, which Python's mmap has no name for."""


class UnmappedError(Exception):
    """Memory of this kind can't be had here; the message says why."""


def bytes_at_an_edge(size: int, device: torch.device, *, at_end: bool) -> torch.Tensor:
    """Returns ``size`` bytes, uint8 [size], next to addresses without memory: behind them ``at_end``, else before them.

    Raises UnmappedError if the system or the driver gives no such memory.
    """
    return (_on_gpu if device.type == "cuda" else _on_cpu)(size, device, at_end=at_end)


def _on_cpu(size: int, _: torch.device, *, at_end: bool) -> torch.Tensor:
    if not sys.platform.startswith("linux"):
        raise UnmappedError(f"pages without rights are asked for on Linux alone; this is {sys.platform}")
    page = mmap.PAGESIZE
    body = -(-size // page) * page
    buffer = mmap.mmap(-1, body + 2 * page)
    first = torch.frombuffer(buffer, dtype=torch.uint8).data_ptr()
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for address in (first, first + page + body):
        if protect(ctypes.c_void_p(address), ctypes.c_size_t(page), _NO_RIGHTS):
            raise UnmappedError(f"mprotect failed with errno {ctypes.get_errno()}")
    return torch.frombuffer(buffer, dtype=torch.uint8, count=size, offset=page + (body - size if at_end else 0))


class _MappedRange:
    """A range of addresses, of which the middle alone has memory; given back when nothing refers to it."""

    def __init__(self, size: int, device: int, *, at_end: bool) -> None:
        self._undo: list[Callable[[], object]] = []
        driver, none, nothing = _driver(), ctypes.c_ulonglong(0), ctypes.c_size_t(0)
        step, address, memory = ctypes.c_size_t(), ctypes.c_ulonglong(), ctypes.c_ulonglong()
        # The driver's CUmemAllocationProp and CUmemAccessDesc: a type, no handles, a place; a place and rights.
        wanted = struct.pack("iiii16x", _PINNED, 0, _ON_DEVICE, device)
        access = struct.pack("iii", _ON_DEVICE, device, _READ_AND_WRITE)
        self._do("cuMemGetAllocationGranularity", ctypes.byref(step), wanted, 0)
        page = step.value
        body = ctypes.c_size_t(-(-size // page) * page)
        around = ctypes.c_size_t(body.value + 2 * page)
        self._do("cuMemAddressReserve", ctypes.byref(address), around, nothing, none, none)
        self._undo.append(lambda: driver.cuMemAddressFree(address, around))
        self._do("cuMemCreate", ctypes.byref(memory), body, wanted, none)
        self._undo.append(lambda: driver.cuMemRelease(memory))
        begin = ctypes.c_ulonglong(address.value + page)
        self._do("cuMemMap", begin, body, nothing, memory, none)
        self._undo.append(lambda: driver.cuMemUnmap(begin, body))
        self._do("cuMemSetAccess", begin, body, access, ctypes.c_size_t(1))
        first = begin.value + (body.value - size if at_end else 0)
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (first, False), "version": 3}

    @staticmethod
    def _do(name: str, *arguments: Any) -> None:
        result = getattr(_driver(), name)(*arguments)
        if result:
            raise UnmappedError(f"{name} gave error {result} of the CUDA driver")

    def __del__(self) -> None:
        # Unlike torch's own memory this may not be given back before the kernels that read it have ended.
        with suppress(RuntimeError):
            torch.cuda.synchronize()
        for undo in reversed(self._undo):
            undo()


@cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise UnmappedError(f"the CUDA driver's library can't be loaded: {error}") from None


def _on_gpu(size: int, device: torch.device, *, at_end: bool) -> torch.Tensor:
    index = torch.cuda.current_device() if device.index is None else device.index
    return torch.as_tensor(_MappedRange(size, index, at_end=at_end), device=torch.device("cuda", index))


_SHAPES = ((3, 129), (5, 1030))
"""Rows that fill no tile of rows, and columns that fill no block of a power of two."""

_EDGES = {"inside": "", "end": "behind", "begin": "before"}
"""Places of an input, each with the side on which no memory lies."""
_TRANSPOSED, _OPERANDS = "transposed-", "operands-"


class _Edge(NamedTuple):
    kind: str
    """``_TRANSPOSED``: the columns lie packed one behind the other, so that the rows that a tile has too many end the memory.
    ``_OPERANDS``: each other operand of the call lies at the edge in place of the input."""
    rows: int
    columns: int
    edge: str

    def moved(self, name: str, tensor: Any) -> Any:
        """Returns an operand, or the input ``x``, at the edge if it is to lie there; one that is not dense stays where it is."""
        if self.edge == "inside" or not isinstance(tensor, torch.Tensor) or (name == "x") is (self.kind == _OPERANDS):
            return tensor
        whole = tensor.new_empty(0).set_(tensor.untyped_storage())
        if tensor.requires_grad or whole.numel() != tensor.numel():
            return tensor
        held = bytes_at_an_edge(whole.nbytes, tensor.device, at_end=self.edge == "end").view(whole.dtype).copy_(whole)
        return held.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def operands(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the operands of a call, and what stands in the matrix's place, where they are to lie."""
        return {name: self.moved(name, each) for name, each in given.items()}


def _edges(setting: Setting) -> list[tuple[str, _Edge]]:
    """Two shapes, one under the interpreter, packed and transposed: in ordinary memory, at its end and its beginning.

    Other operands of a call are packed.
    """
    wanted = _SHAPES if setting.on_gpu and not setting.quick else _SHAPES[:1]
    chosen = [(rows, columns) for rows, columns in wanted if setting.takes(columns)] or [(3, 1)]
    kinds = ["", *[_TRANSPOSED] * ("strided" in setting.declaration.layouts)]
    kinds += [_OPERANDS] * (setting.operation.arguments is not None)
    edges = [_Edge(kind, *shape, edge) for kind in kinds for edge in _EDGES for shape in chosen]
    return [(f"{each.edge}/{each.kind}{each.rows}x{each.columns}", each) for each in edges]


def _called(subject: Subject, asked: _Edge) -> Iterator[Outcome]:
    """Calls the variant once. On a CPU a read beyond the input ends the process."""
    fmt, device = subject.setting.fmt, subject.device
    bits = ordinary_rows(asked.rows, asked.columns, fmt, subject.setting.seed)
    layout = Layout(row_stride=1, column_stride=asked.rows) if asked.kind == _TRANSPOSED else PACKED
    try:
        if asked.edge != "inside":
            # Raises here what would be taken for the variant's own exception in the call.
            bytes_at_an_edge(1, device, at_end=True)
        view = asked.moved("x", place(bits, fmt, layout, device).view)
    except UnmappedError as error:
        yield Outcome(skipped=f"inputs beside unmapped memory: {error}")
        return
    placed = Placed(view, view.as_strided((view.numel(),), (1,)), fmt)
    called = call_placed(subject.calling(with_operands(subject.variant.function, view, asked.operands)), placed)
    yield Outcome(violations=only(called.violations, FindingKind.CRASH), fatal=called.fatal)


class PageEnds(TrialTable):
    """Checks that nothing beyond the input and the other operands is read."""

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        """Calls a crash a read out of bounds where the same call in ordinary memory passes."""
        ended = {trial.parameters for trial, outcome in done if outcome.violations}
        return super().conclude(
            [
                (
                    trial,
                    outcome
                    if trial.parameters._replace(edge="inside") in ended
                    else _as_read(trial.parameters, outcome),
                )
                for trial, outcome in done
            ]
        )


def _as_read(asked: _Edge, outcome: Outcome) -> Outcome:
    whose = "the operands beside the input" if asked.kind == _OPERANDS else "the input"
    words = f"no memory lies {_EDGES[asked.edge]} {whose}, and the call reached there"
    found = prefixed(outcome.violations, words)
    read = tuple(msgspec.structs.replace(violation, kind=FindingKind.OUT_OF_BOUNDS_READ) for violation in found)
    return msgspec.structs.replace(outcome, violations=read)


PROBE = PageEnds(_edges, _called)
