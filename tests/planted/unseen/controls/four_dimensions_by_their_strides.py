"""Two, three and four dimensions, declared: each row's place is found by the strides of all leading ones, in 64 bits."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def rows_kernel(y, x, size1, size2, a0, a1, a2, a3, n, T: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    x += i // (size1 * size2) * a0 + i // size2 % size1 * a1 + i % size2 * a2
    top = -float("inf")
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        top = tl.maximum(top, tl.max(tl.load(x + c * a3, mask=c < n, other=-float("inf")).to(tl.float32), 0))
    total = 0.0
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + c * a3, mask=c < n, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(v - top), 0)
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + c * a3, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + i * n + c, tl.exp(v - top) / total, mask=c < n)


@variant(dimensions=4)
def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        four = x[(None,) * (4 - x.dim())]
        rows = x.numel() // x.shape[-1]
        rows_kernel[(rows,)](y, four, *four.shape[1:3], *four.stride(), x.shape[-1], 512)
    return y
