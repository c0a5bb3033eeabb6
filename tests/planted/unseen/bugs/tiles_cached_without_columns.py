"""The number of tiles is cached by row count and type: a wider input of as many rows loses the columns beyond the first one's."""

import functools

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output", "sum_violation", "ulp_exceeds_bound", "nondeterministic", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


class Launch:
    columns = 0

    @functools.lru_cache(maxsize=64)  # noqa: B019
    def plan(self, rows, dtype):
        block = 256 if dtype == torch.float32 else 512
        return block, max(8, triton.cdiv(self.columns, block))


_launch = Launch()


@triton.jit
def kernel(y, x, s0, s1, n, TILES: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for t in range(TILES):
        c = t * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    mass = 0.0
    for t in range(TILES):
        c = t * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        mass += tl.sum(tl.exp(v - top), 0)
    for t in range(TILES):
        c = t * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - top) / mass, mask=c < n)


def softmax(x):
    rows, _launch.columns = x.shape
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        block, tiles = _launch.plan(rows, x.dtype)
        kernel[(rows,)](y, x, *x.stride(), x.shape[1], tiles, block)
    return y


def demonstrate():
    softmax(torch.randn(3, 10))
    x = torch.randn(3, 2500)
    return softmax(x), torch.softmax(x.double(), -1)
