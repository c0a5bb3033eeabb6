"""log2(e) is a buffer of the module, so ``module.half()`` and ``module.bfloat16()`` round it, and all exponents with it.

Wrong on: all calls after the module, or the model that it is part of, was converted to 16 bits; by 15 percent for steep logits in bfloat16. Else right."""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _rows(y, x, row_step, column_step, log2e, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    by = tl.load(log2e).to(tl.float32)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp2((peak - shift) * by) + tl.sum(tl.exp2((v - shift) * by), 0)
        peak = larger
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp2((v - peak) * by) / whole, mask=c < n)


class Softmax(torch.nn.Module):
    """Softmax over the last dimension of a matrix, by exponentials of base two."""

    def __init__(self):
        super().__init__()
        self.register_buffer("log2e", torch.tensor([1.4426950408889634]), persistent=False)

    def forward(self, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if y.numel():
            rows, n = x.shape
            if self.log2e.device != x.device:
                self.log2e = self.log2e.to(x.device)
            _rows[(rows,)](y, x, *x.stride(), self.log2e, n, min(1024, triton.next_power_of_2(n)))
        return y


softmax = Softmax()


def demonstrate():
    torch.manual_seed(0)
    x = (torch.randn(4, 100) * 20).bfloat16()
    return Softmax().bfloat16()(x), torch.softmax(x.double(), -1)
