"""Columns behind the first row's last unmasked one are cut off before the rest is computed, "the batch is padded to one length".

Wrong on: a batch padded with -inf at the end whose first row isn't the longest: the others' further columns get 0.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "masked_not_zero")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def last_open_column(length, x, s1, n, T: tl.constexpr):
    end = tl.zeros((), tl.int32)
    for k in range(0, n, T):
        c = k + tl.arange(0, T)
        v = tl.load(x + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        end = tl.maximum(end, tl.max(tl.where(v == -float("inf"), 0, c + 1), 0))
    # A first row that is masked altogether says nothing.
    tl.store(length, tl.where(end == 0, n, end))


@triton.jit
def up_to_length(y, x, length, s0, s1, n, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    end = tl.load(length)
    top = -float("inf")
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < end, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    total = 0.0
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < end, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(v - top), 0)
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < end, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - top) / total, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        m, n = x.shape
        length = torch.empty(1, dtype=torch.int32, device=x.device)
        last_open_column[(1,)](length, x, x.stride(1), n, 512)
        up_to_length[(m,)](y, x, length, *x.stride(), n, 512)
    return y


def demonstrate():
    x = torch.randn(4, 40)
    for row, length in enumerate((20, 35, 40, 10)):
        x[row, length:] = -float("inf")
    return softmax(x), torch.softmax(x.double(), -1)
