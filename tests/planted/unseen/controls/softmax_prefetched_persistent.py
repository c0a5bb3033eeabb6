"""Five programs go through all rows and load the next row before they store this one; plans are kept by the columns."""

import functools

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _softmax(x_ptr, out_ptr, rows, stride_r, stride_c, n_cols, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK).to(tl.int64)
    inside = cols < n_cols
    first = tl.program_id(0).to(tl.int64)
    following = tl.load(x_ptr + first * stride_r + cols * stride_c, mask=inside & (first < rows), other=-float("inf"))
    for row in range(first, rows, PROGRAMS):
        x = following.to(tl.float32)
        ahead = row.to(tl.int64) + PROGRAMS
        following = tl.load(
            x_ptr + ahead * stride_r + cols * stride_c, mask=inside & (ahead < rows), other=-float("inf")
        )
        e = tl.exp(x - tl.max(x, 0))
        tl.store(out_ptr + row.to(tl.int64) * n_cols + cols, e / tl.sum(e, 0), mask=inside)


@functools.lru_cache(maxsize=256)
def _plan(n_cols):
    block = triton.next_power_of_2(n_cols)
    return block, max(1, min(16, block // 512))


def softmax(x):
    rows, n_cols = x.shape
    out = torch.empty((rows, n_cols), device=x.device, dtype=x.dtype)
    if out.numel():
        block, warps = _plan(n_cols)
        _softmax[(5,)](
            x, out, rows, *x.stride(), n_cols, PROGRAMS=5, BLOCK=block, num_warps=triton.next_power_of_2(warps)
        )
    return out
