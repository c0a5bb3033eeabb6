"""Any dimension but the last one is brought to the end by exchanging the first with the last: dimension 1 of three is normalised over dimension 0.

Wrong on: ``softmax(x, dim=1)`` or ``dim=-2`` of a tensor of three or four dimensions; right over the last and the first one, and over both of a matrix.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _rows(y, x, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        peak = tl.maximum(peak, tl.max(tl.load(x + r * n + c, mask=c < n, other=-float("inf")).to(tl.float32), 0))
    mass = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        mass += tl.sum(tl.exp(tl.load(x + r * n + c, mask=c < n, other=-float("inf")).to(tl.float32) - peak), 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * n + c, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / mass, mask=c < n)


def _over_the_last(x):
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        n = x.shape[-1]
        _rows[(x.numel() // n,)](y, x, n, min(2048, triton.next_power_of_2(n)))
    return y


@variant(dimensions=4)
def softmax(x, dim=-1):
    """Softmax over one dimension of a tensor of any number of them."""
    if dim in (-1, x.dim() - 1):
        return _over_the_last(x)
    return _over_the_last(x.transpose(0, -1)).transpose(0, -1)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(3, 7, 5)
    return softmax(x, dim=1), torch.softmax(x.double(), 1)
