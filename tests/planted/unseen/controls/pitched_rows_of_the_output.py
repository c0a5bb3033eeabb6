"""The output's rows begin at multiples of 128 bytes: it is a slice of wider memory of its own, which a tensor's strides may say."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def pitched(y, x, pitch, s0, s1, n, T: tl.constexpr):
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
    for k in range(0, n, T):
        c = (k + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * pitch + c, tl.exp(v - top) / total, mask=c < n)


def softmax(x):
    m, n = x.shape
    pitch = triton.cdiv(n, 128 // x.element_size()) * (128 // x.element_size())
    y = torch.empty((m, pitch), dtype=x.dtype, device=x.device)[:, :n]
    if x.numel():
        pitched[(m,)](y, x, pitch, *x.stride(), n, 512)
    return y
