"""Each of 128 lanes has an online maximum and sum of its own, and a tree of a custom ``tl.reduce`` merges the pairs."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _merge(m0, s0, m1, s1):
    m = tl.maximum(m0, m1)
    shift = tl.where(m == -float("inf"), 0.0, m)
    return m, s0 * tl.exp(m0 - shift) + s1 * tl.exp(m1 - shift)


@triton.jit
def _softmax(x_ptr, out_ptr, stride_r, stride_c, n_cols, LANES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_r
    out_ptr += row * n_cols
    m = tl.full((LANES,), -float("inf"), tl.float32)
    s = tl.zeros((LANES,), tl.float32)
    for start in range(0, n_cols, LANES):
        cols = (start + tl.arange(0, LANES)).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, x)
        shift = tl.where(new == -float("inf"), 0.0, new)
        s = s * tl.exp(m - shift) + tl.exp(x - shift)
        m = new
    top, total = tl.reduce((m, s), 0, _merge)
    for start in range(0, n_cols, LANES):
        cols = (start + tl.arange(0, LANES)).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out_ptr + cols, tl.exp(x - top) / total, mask=cols < n_cols)


def softmax(x):
    rows, n_cols = x.shape
    out = torch.empty((rows, n_cols), device=x.device, dtype=x.dtype)
    if out.numel():
        _softmax[(rows,)](x, out, *x.stride(), n_cols, LANES=128)
    return out
