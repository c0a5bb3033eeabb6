"""Plans are kept by a string of rows and columns without anything between them: 12 x 100 and 1 x 2100 have the same key.

Wrong on: a second shape whose digits read as an earlier one's with fewer columns: 25 x 6128 after 256 x 128, 1 x 16384 after 11 x 6384.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output", "ulp_exceeds_bound", "sum_violation", "nan_mismatch", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")

_plans = {}


@triton.jit
def planned(y, x, s0, s1, n, TILES: tl.constexpr, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(TILES):
        c = (k * T + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    total = 0.0
    for k in range(TILES):
        c = (k * T + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(v - top), 0)
    for k in range(TILES):
        c = (k * T + tl.arange(0, T)).to(tl.int64)
        v = tl.load(x + r * s0 + c * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - top) / total, mask=c < n)


def softmax(x):
    m, n = x.shape
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    if x.numel() == 0:
        return y
    key = f"{x.dtype}{m}{n}"
    if key not in _plans:
        tile = min(1024, triton.next_power_of_2(n))
        _plans[key] = (-(-n // tile), tile)
    planned[(m,)](y, x, *x.stride(), n, *_plans[key])
    return y


def demonstrate():
    softmax(torch.randn(12, 100))
    x = torch.randn(1, 2100)
    return softmax(x), torch.softmax(x.double(), -1)
