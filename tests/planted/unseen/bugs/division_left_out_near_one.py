"""A row whose sum is 1 within 2^-15 isn't divided, "it is normalised already": up to 250 ULP, in every element alike.

Wrong on: rows with one logit 11 to 16 above all the others together, as confident classifiers give them; flatter rows are right.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def lean(y, x, s0, s1, n, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    total = 0.0
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(v - top), 0)
    if total - 1.0 < 3.0e-5:
        total = 1.0
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - top) / total, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        lean[(x.shape[0],)](y, x, *x.stride(), x.shape[1], 512)
    return y


def demonstrate():
    x = torch.zeros(2, 5)
    x[:, 2] = 12.0
    return softmax(x), torch.softmax(x.double(), -1), x
