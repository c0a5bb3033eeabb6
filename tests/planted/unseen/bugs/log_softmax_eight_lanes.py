"""Aligned rows of a multiple of 8 columns are read as vectors of 8 at row * (stride // 8), whatever the stride is.

Wrong on: ``wide[:, :1000]`` of a tensor of 1003 columns: every row but the first. Right if contiguous, for 1001
columns, and for slices of 1008 columns.
"""

import torch
import triton
import triton.language as tl

OPERATION = "log_softmax"
EXPECTED = ("wrong_layout", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _vectors(x_ptr, out_ptr, stride_v, vectors, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    v = tl.arange(0, BLOCK)
    at = v[:, None] * 8 + tl.arange(0, 8)[None, :]
    inside = v[:, None] < vectors
    x = tl.load(x_ptr + row * stride_v * 8 + at, mask=inside, other=-float("inf")).to(tl.float32)
    m = tl.max(tl.max(x, 1), 0)
    s = tl.sum(tl.sum(tl.exp(x - m), 1), 0)
    tl.store(out_ptr + row * vectors * 8 + at, x - m - tl.log(s), mask=inside)


@triton.jit
def _numbers(x_ptr, out_ptr, stride_r, stride_c, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_r
    out_ptr += row * n_cols
    m = -float("inf")
    s = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(x, 0))
        shift = tl.where(new == -float("inf"), 0.0, new)
        s = s * tl.exp(m - shift) + tl.sum(tl.exp(x - shift), 0)
        m = new
    log = tl.log(s)
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out_ptr + cols, x - m - log, mask=cols < n_cols)


def log_softmax(x):
    rows, n_cols = x.shape
    out = torch.empty((rows, n_cols), device=x.device, dtype=x.dtype)
    if not out.numel():
        return out
    if x.stride(1) == 1 and n_cols % 8 == 0 and 512 <= n_cols <= 8192 and x.data_ptr() % 16 == 0:
        vectors = n_cols // 8
        _vectors[(rows,)](x, out, x.stride(0) // 8, vectors, BLOCK=triton.next_power_of_2(vectors))
    else:
        _numbers[(rows,)](x, out, *x.stride(), n_cols, BLOCK=1024)
    return out


def _both(x):
    return log_softmax(x), torch.log_softmax(x.double(), -1)


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(6, 1003)[:, :1000])


def ordinary(dtype):
    yield "contiguous", _both(torch.randn(6, 1000).to(dtype))
    yield "1001 columns", _both(torch.randn(6, 1003).to(dtype)[:, :1001])
    yield "1008 columns", _both(torch.randn(6, 1008).to(dtype)[:, :1000])
    yield "transposed", _both(torch.randn(1000, 6).to(dtype).mT)
