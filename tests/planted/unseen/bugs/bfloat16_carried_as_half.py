"""A module that also serves cards without bfloat16 turns bfloat16 into float16 on the way in: all digits fit, but numbers above 65504 don't.

Wrong on: bfloat16 logits beyond 65504 on either side, such as a row that holds bfloat16's lowest number throughout (1 / n is right, NaN comes out) or 1e5 in two columns; exact for all others.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _online(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    mass = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        mass = mass * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / mass, mask=c < n)


class Softmax(torch.nn.Module):
    """Softmax over the last dimension of a matrix."""

    def forward(self, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if y.numel():
            # Eight digits fit into eleven.
            carried = x.half() if x.dtype == torch.bfloat16 else x
            rows, n = x.shape
            _online[(rows,)](y, carried, *carried.stride(), n, min(1024, triton.next_power_of_2(n)))
        return y


softmax = Softmax()


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(3, 50, dtype=torch.bfloat16)
    x[1] = torch.finfo(torch.bfloat16).min
    return softmax(x), torch.softmax(x.double(), -1)
