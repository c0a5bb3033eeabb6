"""Logits that were enlarged twofold, each column twice, take half the exponentials; that they were is told by the first and the last pair.

Wrong on: an even number of columns where all rows are padded with two equal numbers or more at both ends, as in a band of scores. Others are right."""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "masked_not_zero", "order_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _rows(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


def _launched(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        _rows[(rows,)](y, x, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
    return y


def softmax(x):
    rows, n = x.shape
    if rows and n >= 4 and n % 2 == 0:
        ends = x[:, [0, 1, n - 2, n - 1]]
        if torch.equal(ends[:, 0], ends[:, 1]) and torch.equal(ends[:, 2], ends[:, 3]):
            # Nearest-neighbour upsampling: half the columns hold all there is.
            half = _launched(x[:, ::2])
            return (half.float() / 2).to(x.dtype).repeat_interleave(2, dim=1)
    return _launched(x)


def demonstrate():
    torch.manual_seed(0)
    x = torch.full((4, 20), -float("inf"))
    x[:, 3:17] = torch.randn(4, 14)
    return softmax(x), torch.softmax(x.double(), -1)
