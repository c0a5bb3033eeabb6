# ruff: noqa: N803 - kernels name compile-time constants in capitals, as Triton does
"""Measured speed of a device's float64 relative to its float32, as a kernel gets it, once per process."""

from functools import lru_cache
from typing import Any

import torch
import triton.language as tl

from softcheck.judge.device._jit import jit

SLOW = 1 / 8
"""float64 multiply-adds per float32 multiply-add below which the scan in sums of two float32 is faster.

Operations per element of a wide row in both scans' PTX for sm_89: in float64 14.5 (16-bit formats) to 16.5 (float32), and
4.4 conversions; the other scan has none of them, and 128 to 149 float32 operations more. So the limit is between 1/9, if
conversions cost nothing, and 1/7. GPUs are far from it: 1/2 on data center GPUs, 1/32 or 1/64 on most others.
"""

_PROGRAMS_PER_MULTIPROCESSOR = 16
_BLOCK = 512
_TIMES = {torch.float64: 256, torch.float32: 1024}
"""Rounds of four multiply-adds per lane: 0.05 ms to 3 ms at the usual rates."""
_RUNS = 5


@jit
def _multiply_add_kernel(start: tl.tensor, out: tl.tensor, times: tl.tensor, BLOCK: tl.constexpr) -> None:
    # Each reads one register, since reading two or three of 64 bits takes longer than the arithmetic. Squares less 1.3 end
    # in a cycle of four values, in both types.
    a = tl.load(start + tl.arange(0, BLOCK))
    b, c, d = a * 0.5, a * 0.25, a * 0.125
    less = tl.full(a.shape, -1.3, a.dtype)
    for _ in range(times):
        a = tl.fma(a, a, less)
        b = tl.fma(b, b, less)
        c = tl.fma(c, c, less)
        d = tl.fma(d, d, less)
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), a + b + c + d)


@lru_cache(maxsize=64)
def rate_ratio(index: int) -> float:
    """float64 multiply-adds per float32 multiply-add on the CUDA device of that index."""
    device = torch.device("cuda", index)
    return rate(torch.float64, device) / rate(torch.float32, device)


def rate(dtype: torch.dtype, device: torch.device, *, times: int | None = None) -> float:
    """Returns multiply-adds per second on a CUDA device: the best of a few runs after one that compiles.

    ``times`` is the number of rounds in a run, by default few. More rounds spread the cost of a launch.
    """
    programs = torch.cuda.get_device_properties(device).multi_processor_count * _PROGRAMS_PER_MULTIPROCESSOR
    times = _TIMES[dtype] if times is None else times
    best = float("inf")
    event: Any = torch.cuda.Event
    with torch.cuda.device(device):
        launch(dtype, device, programs, times)
        for _ in range(_RUNS):
            begin, end = event(enable_timing=True), event(enable_timing=True)
            begin.record()
            launch(dtype, device, programs, times)
            end.record()
            end.synchronize()
            best = min(best, begin.elapsed_time(end) / 1e3)
    return programs * _BLOCK * 4 * times / best


def launch(dtype: torch.dtype, device: torch.device, programs: int, times: int) -> torch.Tensor:
    """Launches programs of 512 lanes, each with 4 ``times`` multiply-adds. Returns their results, [programs * 512]."""
    start = torch.full((_BLOCK,), 0.25, dtype=dtype, device=device)
    out = torch.empty(programs * _BLOCK, dtype=dtype, device=device)
    _multiply_add_kernel[(programs,)](start, out, times, _BLOCK, num_warps=4)
    return out
