"""Right: the softmax over any dimension, named or numbered from the end, whose stride is the column step; what lies before and behind that dimension are two steps of rows."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _lines(y, x, inner, n, WIDTH: tl.constexpr):
    line = tl.program_id(0).to(tl.int64)
    # Packed memory: a line begins at (what lies before) * n * inner + (what lies behind).
    start = (line // inner) * n * inner + line % inner
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + start + c * inner, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + start + c * inner, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + start + c * inner, tl.exp(v - peak) / whole, mask=c < n)


@variant(dimensions=4)
def softmax(x, dim=-1):
    """Softmax over one dimension of a tensor of any number of them."""
    if not -x.dim() <= dim < x.dim():
        raise IndexError(f"dimension {dim} of a tensor of {x.dim()}")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        dim %= x.dim()
        n, inner = x.shape[dim], 1
        for size in x.shape[dim + 1 :]:
            inner *= size
        _lines[(x.numel() // n,)](y, x.contiguous(), inner, n, min(1024, triton.next_power_of_2(n)))
    return y
