"""A row that the mask hides gives zeros, but its gradient is made of exp(-inf - -inf) and is NaN.

Wrong on: gradients where the mask hides a whole row, as of padded queries, in the row itself and then in all weights before it. Outputs are right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_gradient", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _masked(y, lse, x, mask, row_step, column_step, mask_row_step, mask_column_step, n, scale, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    hidden = tl.load(mask + r * mask_row_step + c * mask_column_step, mask=c < n, other=1)
    seen = (c < n) & (hidden == 0)
    v = tl.load(x + r * row_step + c * column_step, mask=seen, other=-float("inf")).to(tl.float32) * scale
    peak = tl.max(v, 0)
    e = tl.exp(v - tl.where(peak == -float("inf"), 0.0, peak))
    whole = tl.sum(e, 0)
    tl.store(y + r * n + c, tl.where(whole == 0.0, 0.0, e / whole), mask=c < n)
    tl.store(lse + r, peak + tl.log(whole))


class _Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask, scale):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        lse = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
        if y.numel():
            rows, n = x.shape
            steps = (*x.stride(), *mask.stride())
            _masked[(rows,)](y, lse, x, mask.view(torch.int8), *steps, n, scale, triton.next_power_of_2(n))
        ctx.save_for_backward(x, mask, lse)
        ctx.scale = scale
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        x, mask, lse = ctx.saved_tensors
        # The scores of hidden columns are filled, so that nothing behind the mask is used.
        p = torch.exp(torch.where(mask, -float("inf"), x.float() * ctx.scale) - lse[:, None])
        g = grad.float()
        return (p * (g - (p * g).sum(-1, keepdim=True)) * ctx.scale).to(x.dtype), None, None


@variant(
    parameters={"scale": 0.125},
    call="f(x, mask, scale)",
    fully_masked="zero",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def softmax(x, mask, scale):
    """Softmax of scale * x without the columns where the mask is True; zeros where it hides all."""
    return _Masked.apply(x, mask, scale)


def _gradient(function, x, w):
    (function(x) * w).sum().backward()
    return x.grad


def _both(dtype, dead):
    x, w, mask = torch.randn(6, 40).to(dtype), torch.randn(6, 40).to(dtype), torch.rand(6, 40) < 0.3
    if dead:
        mask[2] = True
    given = _gradient(lambda x: softmax(x, mask, 0.125), x.clone().requires_grad_(), w)

    def plain(x):
        return torch.softmax((x * 0.125).masked_fill(mask, -float("inf")), -1).masked_fill(
            mask.all(1, keepdim=True), 0.0
        )

    live = ~mask.all(1)
    exact = torch.zeros(6, 40, dtype=torch.float64)
    wide = x.double().requires_grad_()
    (plain(wide)[live] * w.double()[live]).sum().backward()
    exact[live] = wide.grad[live]
    return given, exact


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.float32, True)


def ordinary(dtype):
    return _both(dtype, False)
