"""Column-major input has a kernel of its own, which steps by the strides whatever they are; the output is packed."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def down_columns(y, x, m, n, s0, s1, M: tl.constexpr, N: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)[None, :]
    top = tl.full((M,), -float("inf"), tl.float32)
    for k in range(0, n, N):
        c = (k + tl.arange(0, N)).to(tl.int64)[:, None]
        t = tl.load(x + r * s0 + c * s1, mask=(r < m) & (c < n), other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(t, axis=0))
    mass = tl.zeros((M,), tl.float32)
    for k in range(0, n, N):
        c = (k + tl.arange(0, N)).to(tl.int64)[:, None]
        t = tl.load(x + r * s0 + c * s1, mask=(r < m) & (c < n), other=-float("inf")).to(tl.float32)
        mass += tl.sum(tl.exp(t - top[None, :]), axis=0)
    for k in range(0, n, N):
        c = (k + tl.arange(0, N)).to(tl.int64)[:, None]
        t = tl.load(x + r * s0 + c * s1, mask=(r < m) & (c < n), other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(t - top[None, :]) / mass[None, :], mask=(r < m) & (c < n))


def softmax(x):
    m, n = x.shape
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    if m * n == 0:
        return y
    if x.stride(0) < x.stride(1):
        down_columns[(triton.cdiv(m, 16),)](y, x, m, n, *x.stride(), 16, 64)
        return y
    return torch.softmax(x, dim=1)
