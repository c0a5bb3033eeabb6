"""Launch plans are kept by everything that they depend on: rows' class, columns, strides' class and type."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

_plans = {}


@triton.jit
def kernel(y, x, m, n, s0, s1, EVEN: tl.constexpr, PACKED: tl.constexpr, ROWS: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, B)[None, :]
    place = r * s0 + (c if PACKED else c.to(tl.int64) * s1)
    inside = (r < m) & (c < n)
    if EVEN:
        v = tl.load(x + place, mask=r < m, other=0.0).to(tl.float32)
    else:
        v = tl.load(x + place, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=1)[:, None])
    tl.store(y + r * n + c, e / tl.sum(e, axis=1)[:, None], mask=inside)


def plan(x):
    m, n = x.shape
    key = (m >= 4096, n, x.stride(1) == 1, x.dtype)
    if key not in _plans:
        block = triton.next_power_of_2(n)
        _plans[key] = {"EVEN": block == n, "PACKED": x.stride(1) == 1, "ROWS": 4 if m >= 4096 else 1, "B": block}
    return _plans[key]


def softmax(x):
    m, n = x.shape
    if m == 0 or n == 0 or n > 8192:
        return torch.softmax(x, -1)
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    chosen = plan(x)
    kernel[(triton.cdiv(m, chosen["ROWS"]),)](y, x, m, n, *x.stride(), **chosen)
    return y
