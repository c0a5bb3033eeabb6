"""Even and odd tiles have a maximum and sum each, merged in terms of the even ones' maximum: exp(m1 - m0) may overflow.

Wrong on: an odd tile's logit 89 or more above all of the even tiles, as randn(4, 3000) with one logit of 120 at column
1500. Right on randn.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _softmax(x_ptr, out_ptr, stride_r, stride_c, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_r
    out_ptr += row * n_cols
    m0 = -float("inf")
    m1 = -float("inf")
    s0 = 0.0
    s1 = 0.0
    for start in range(0, n_cols, 2 * BLOCK):
        even = (start + tl.arange(0, BLOCK)).to(tl.int64)
        odd = even + BLOCK
        x0 = tl.load(x_ptr + even * stride_c, mask=even < n_cols, other=-float("inf")).to(tl.float32)
        x1 = tl.load(x_ptr + odd * stride_c, mask=odd < n_cols, other=-float("inf")).to(tl.float32)
        n0 = tl.maximum(m0, tl.max(x0, 0))
        n1 = tl.maximum(m1, tl.max(x1, 0))
        h0 = tl.where(n0 == -float("inf"), 0.0, n0)
        h1 = tl.where(n1 == -float("inf"), 0.0, n1)
        s0 = s0 * tl.exp(m0 - h0) + tl.sum(tl.exp(x0 - h0), 0)
        s1 = s1 * tl.exp(m1 - h1) + tl.sum(tl.exp(x1 - h1), 0)
        m0 = n0
        m1 = n1
    m0 = tl.where(m0 == -float("inf"), 0.0, m0)
    s = s0 + tl.where(s1 == 0.0, 0.0, s1 * tl.exp(m1 - m0))
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out_ptr + cols, tl.exp(x - m0) / s, mask=cols < n_cols)


def softmax(x):
    rows, n_cols = x.shape
    out = torch.empty((rows, n_cols), device=x.device, dtype=x.dtype)
    if out.numel():
        _softmax[(rows,)](x, out, *x.stride(), n_cols, BLOCK=1024)
    return out


def _both(x):
    return softmax(x), torch.softmax(x.double(), -1)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(4, 3000)
    x[1, 1500] = 120.0
    return _both(x)


def ordinary(dtype):
    for columns in (60, 1000, 1500, 3000):
        yield f"{columns}", _both(torch.randn(4, columns).to(dtype))
