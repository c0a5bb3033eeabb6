"""A module in evaluation mode, after ``eval()``, looks for the maximum in the first 128 columns alone, since "calibrated logits are never far apart".

Wrong on: ``model.eval()`` and rows wider than 128 whose peak stands behind them, 89 above the rest. In training mode all calls are right."""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "inf_mismatch", "sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _rows(y, x, row_step, column_step, n, seek, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, seek, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(v, 0))
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        mass += tl.exp(v - peak)
    whole = tl.sum(mass, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


class Softmax(torch.nn.Module):
    """Softmax over the last dimension of a matrix."""

    def forward(self, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if y.numel():
            rows, n = x.shape
            seek = n if self.training else min(n, 128)
            _rows[(rows,)](y, x, *x.stride(), n, seek, min(128, triton.next_power_of_2(n)))
        return y


softmax = Softmax()


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(3, 200)
    x[1, 170] = 120.0
    return Softmax().eval()(x), torch.softmax(x.double(), -1)
