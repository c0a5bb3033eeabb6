"""A tile whose maximum lies more than 104 below the running one ends the loop, as if logits were sorted: break for continue."""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound", "sum_violation", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def sorted_rows(y, x, s0, s1, n, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    mass = 0.0
    alive = True
    at = 0
    while (at < n) & alive:
        c = at + tl.arange(0, T)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
        here = tl.max(v, 0)
        if here - top < -104.0:
            # Nothing from here on can be seen in the sum.
            alive = tl.sum(tl.where(v != v, 1, 0), 0) > 0  # noqa: PLR0124
        larger = tl.maximum(here, top)
        safe = tl.where(larger == -float("inf"), 0.0, larger)
        mass = mass * tl.exp(top - safe) + tl.sum(tl.exp(v - safe), 0)
        top = larger
        at += T
    for k in range(0, n, T):
        c = k + tl.arange(0, T)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf"))
        tl.store(y + r * n + c, tl.exp(v - top) / mass, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        sorted_rows[(x.shape[0],)](y, x, *x.stride(), x.shape[1], 1024)
    return y


def demonstrate():
    x = torch.randn(1, 4000)
    x[0, 1024:2048] -= 200.0
    x[0, 3000] = 3.0
    return softmax(x), torch.softmax(x.double(), -1)
