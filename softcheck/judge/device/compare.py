# ruff: noqa: N803, PLR0915 - kernels name compile-time constants in capitals, as Triton does, and are one loop
"""Comparison of any operation's output with exact values and limits, in one pass over device memory.

The exact values and limits come from ``Operation.on_device``. An operation whose outputs may cancel gives a scale, in
whose ULP errors are then counted; otherwise the ULP is that of the exact value.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import triton
import triton.language as tl

from oracles.formats import FLOAT64, Format
from softcheck.calling.call import TORCH_DTYPES
from softcheck.errors import UsageError
from softcheck.judge.device import bins
from softcheck.judge.device._jit import ALIGNED, INTERPRETED, OPTIONS, jit, launch_on
from softcheck.judge.device.bins import bin_of, close_table, count, open_table
from softcheck.judge.device.elements import binade, inverse_ulp
from softcheck.judge.device.reduction import better, is_nvidia
from softcheck.judge.device.tiles import REGISTERS, THREADS, default_programs, registers

_BLOCK, _WARPS = 512, 4
_FLOATS = ("error", "share", "error_sum")
_INTEGERS = (
    "error",
    "share",
    "nan_mismatch",
    "inf_mismatch",
    "elements",
    "exceeding",
    "nan_mismatches",
    "inf_mismatches",
)
"""Figures of each program: two maxima and a sum; then the elements that show the maxima, the first elements with a
mismatch, and counts."""
_WORDS = len(_FLOATS) + len(_INTEGERS)
_NOWHERE = 2**62
_ROW, _NONE = tl.constexpr(_WORDS), tl.constexpr(_NOWHERE)
_NO_TILE = tl.constexpr(2**31 - 1)
_INFINITY = tl.constexpr(float("inf"))


@dataclass(frozen=True, slots=True)
class Extremum:
    """A figure and the element that shows it: its index in the output, flattened row by row."""

    value: float
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Figures of an output against exact values and limits. A figure that no element has is None."""

    elements: int
    """Elements whose output and exact value are finite. Only these have an error."""
    error: Extremum | None
    """Largest error in ULPs."""
    share: Extremum | None
    """Largest error divided by its limit; infinite if the limit is 0 and the error is not."""
    exceeding: int
    """Elements whose share is above 1."""
    error_sum: float
    histogram: dict[int, int]
    """Count of elements by bin of their error; ``softcheck.judge.histogram`` defines the bins."""
    nan_mismatches: int
    """Elements of which either the output or the exact value is NaN, but not both."""
    nan_mismatch: int | None
    """Index of the first of them."""
    inf_mismatches: int
    """Elements of which either is infinite, and the other neither NaN nor the same infinity. An output may be infinite
    if the exact value is beyond the format's largest number."""
    inf_mismatch: int | None


@jit
def _first(tile: tl.tensor, shown: tl.tensor, BLOCK: tl.constexpr) -> tl.tensor:
    """The least index of the lanes that show a figure, from the tile of each lane."""
    index = tile.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    return tl.min(tl.where(shown, index, _NONE), axis=0)


@jit
def _compare_kernel(
    output: tl.tensor,
    exact: tl.tensor,
    limits: tl.tensor,
    scale: tl.tensor,
    figures: tl.tensor,
    histogram: tl.tensor,
    elements: tl.tensor,
    BLOCK: tl.constexpr,
    SCALED: tl.constexpr,
    PRECISION: tl.constexpr,
    MIN_EXPONENT: tl.constexpr,
    MAX_EXPONENT: tl.constexpr,
    NVIDIA: tl.constexpr,
) -> None:
    table = open_table(NVIDIA)
    lane = tl.arange(0, BLOCK)
    best_error = tl.full([BLOCK], -1.0, tl.float64)
    best_share = tl.full([BLOCK], -1.0, tl.float64)
    error_tile = tl.full([BLOCK], 0, tl.int32)
    share_tile = tl.full([BLOCK], 0, tl.int32)
    nan_tile = tl.full([BLOCK], _NO_TILE, tl.int32)
    inf_tile = tl.full([BLOCK], _NO_TILE, tl.int32)
    error_sum = tl.full([BLOCK], 0.0, tl.float64)
    compared = tl.full([BLOCK], 0, tl.int32)
    exceeding = tl.full([BLOCK], 0, tl.int32)
    nans = tl.full([BLOCK], 0, tl.int32)
    infs = tl.full([BLOCK], 0, tl.int32)
    largest = tl.full([BLOCK], 2.0**MAX_EXPONENT * (2.0 - 2.0 ** (1 - PRECISION)), tl.float64)
    for tile in tl.range(tl.program_id(0), tl.cdiv(elements, BLOCK), tl.num_programs(0)):
        index = tile.to(tl.int64) * BLOCK + lane
        inside = index < elements
        y = tl.load(output + index, mask=inside, other=0.0).to(tl.float64)
        r = tl.load(exact + index, mask=inside, other=0.0)
        limit = tl.load(limits + index, mask=inside, other=1.0).to(tl.float64)
        y_nan, r_nan = y != y, r != r  # noqa: PLR0124 - true of NaN alone
        y_inf, r_inf = tl.abs(y) == _INFINITY, tl.abs(r) == _INFINITY
        wrong_nan = (y_nan != r_nan) & inside
        overflows = y_inf & (tl.abs(r) >= largest) & ((y > 0) == (r > 0))
        wrong_inf = (y_inf | r_inf) & ((y_nan | r_nan | overflows) == 0)
        comparable = inside & ((y_nan | r_nan | y_inf | r_inf) == 0)
        unit = tl.load(scale + index, mask=inside, other=1.0) if SCALED else r
        per_ulp = inverse_ulp(binade(unit, MIN_EXPONENT), PRECISION)
        error = tl.where(comparable, tl.abs(tl.fma(y, per_ulp, -r * per_ulp)), -1.0)
        share = tl.where(limit > 0, error / limit, tl.where(error > 0, _INFINITY, 0.0))
        share = tl.where(comparable, share, -1.0)
        count(table, histogram, bin_of(error), comparable, NVIDIA, True)
        error_sum += tl.where(comparable, error, 0.0)
        compared += comparable.to(tl.int32)
        exceeding += (share > 1.0).to(tl.int32)
        nans += wrong_nan.to(tl.int32)
        infs += wrong_inf.to(tl.int32)
        best_error, error_tile = better(best_error, error_tile, error, tile, comparable)
        best_share, share_tile = better(best_share, share_tile, share, tile, comparable)
        nan_tile = tl.minimum(nan_tile, tl.where(wrong_nan, tile, _NO_TILE))
        inf_tile = tl.minimum(inf_tile, tl.where(wrong_inf, tile, _NO_TILE))
    at = figures + tl.program_id(0) * _ROW
    error, share = tl.max(best_error, axis=0), tl.max(best_share, axis=0)
    tl.store(at, error.to(tl.int64, bitcast=True))
    tl.store(at + 1, share.to(tl.int64, bitcast=True))
    tl.store(at + 2, tl.sum(error_sum, axis=0).to(tl.int64, bitcast=True))
    tl.store(at + 3, _first(error_tile, best_error == error, BLOCK))
    tl.store(at + 4, _first(share_tile, best_share == share, BLOCK))
    tl.store(at + 5, _first(nan_tile, nan_tile != _NO_TILE, BLOCK))
    tl.store(at + 6, _first(inf_tile, inf_tile != _NO_TILE, BLOCK))
    tl.store(at + 7, tl.sum(compared.to(tl.int64), axis=0))
    tl.store(at + 8, tl.sum(exceeding.to(tl.int64), axis=0))
    tl.store(at + 9, tl.sum(nans.to(tl.int64), axis=0))
    tl.store(at + 10, tl.sum(infs.to(tl.int64), axis=0))
    close_table(table, histogram, NVIDIA)


def compare(
    output: torch.Tensor, exact: torch.Tensor, limits: torch.Tensor, fmt: Format, *, scale: torch.Tensor | None = None
) -> Compared:
    """Compares an output with exact values, all of one shape and on one device; strided tensors are copied.

    ``output`` has the format's dtype, not float64. ``exact``, and ``scale`` if there is one, are float64; ``limits``,
    float64 or float32, are in ULPs: of ``scale``, or of the exact value. If several elements show the largest figure,
    the first is named. Raises UsageError if shapes, dtypes or devices don't match, and without a GPU or Triton's
    interpreter.
    """
    tensors = [output, exact, limits, *([] if scale is None else [scale])]
    expected = [(TORCH_DTYPES[fmt.name],), (torch.float64,), (torch.float64, torch.float32), (torch.float64,)]
    for name, tensor, dtypes in zip(("output", "exact", "limits", "scale"), tensors, expected, strict=False):
        if tensor.shape != output.shape or tensor.device != output.device or tensor.dtype not in dtypes:
            raise UsageError(
                f"{name} is {tensor.dtype} {list(tensor.shape)} on {tensor.device}, expected {dtypes[0]} "
                f"{list(output.shape)} on {output.device}"
            )
    if fmt == FLOAT64:
        raise UsageError("float64 outputs need exact values of more precision; expected float32 or a narrower format")
    flat = [tensor.contiguous().view(-1) for tensor in tensors]
    if output.is_cuda:
        with torch.cuda.device(output.device):
            return _on_device(flat, fmt)
    if not INTERPRETED:
        raise UsageError(f"the output is on {output.device}, expected a GPU, or TRITON_INTERPRET=1")
    return _on_device(flat, fmt)


@lru_cache(maxsize=8)
def _memory(programs: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory for the programs' figures and a histogram of all bins, and for what the host reads of it."""
    space = torch.empty(programs * _WORDS + bins.ALL, dtype=torch.int64, device=device)
    copied = torch.empty(programs * _WORDS + bins.TABLE, dtype=torch.int64, pin_memory=device.type == "cuda")
    return space, copied


def launched(flat: list[torch.Tensor], fmt: Format) -> tuple[int, int]:
    """Launches the kernel on contiguous tensors and the copy to the host; returns its programs, and how many fit."""
    output, exact, limits, scale = (*flat, flat[1])[:4]
    most = default_programs(output.device, _WARPS, THREADS)
    programs = max(1, min(most, triton.cdiv(output.numel(), _BLOCK)))
    space, copied = _memory(most, output.device)
    figures, counts = space[: most * _WORDS], space[most * _WORDS :]
    counts.zero_()
    given = (
        limits,
        scale,
        figures,
        counts,
        output.numel(),
        _BLOCK,
        len(flat) > 3,
        fmt.precision,
        fmt.min_exponent,
        fmt.max_exponent,
        is_nvidia(),
    )
    key = (limits.dtype, limits.data_ptr() % ALIGNED, scale.data_ptr() % ALIGNED, fmt, len(flat))
    launch_on(
        (output, exact), _compare_kernel, programs, key, given, {"num_warps": _WARPS, **registers(REGISTERS), **OPTIONS}
    )
    copied.copy_(space[: len(copied)], non_blocking=True)
    return programs, most


def _on_device(flat: list[torch.Tensor], fmt: Format) -> Compared:
    programs, most = launched(flat, fmt)
    space, copied = _memory(most, flat[0].device)
    if flat[0].is_cuda:
        torch.cuda.current_stream(flat[0].device).synchronize()
    read = np.asarray(copied)
    of_programs = read[: programs * _WORDS].reshape(programs, _WORDS)
    floats = of_programs[:, : len(_FLOATS)].view(np.float64)
    integers = dict(zip(_INTEGERS, of_programs[:, len(_FLOATS) :].T, strict=True))
    by_bin = read[most * _WORDS :]
    if int(by_bin.sum()) != int(integers["elements"].sum()):
        by_bin = space[most * _WORDS :].cpu().numpy()
    used = np.flatnonzero(by_bin)

    def extremum(place: int) -> Extremum | None:
        value = float(floats[:, place].max())
        at = integers[_FLOATS[place]][floats[:, place] == value]
        return Extremum(value, int(at.min())) if value >= 0 else None

    def first(name: str) -> int | None:
        found = int(integers[name].min())
        return None if found == _NOWHERE else found

    return Compared(
        elements=int(integers["elements"].sum()),
        error=extremum(0),
        share=extremum(1),
        exceeding=int(integers["exceeding"].sum()),
        error_sum=float(floats[:, 2].sum()),
        histogram=dict(zip(used.tolist(), by_bin[used].tolist(), strict=True)),
        nan_mismatches=int(integers["nan_mismatches"].sum()),
        nan_mismatch=first("nan_mismatch"),
        inf_mismatches=int(integers["inf_mismatches"].sum()),
        inf_mismatch=first("inf_mismatch"),
    )
