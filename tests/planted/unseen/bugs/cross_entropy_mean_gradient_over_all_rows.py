"""The mean divides by the rows that count, and its backward divides by all rows.

Wrong on: gradients of the mean over a batch in which targets are ignored. Losses, and batches without ignored targets, are right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _sums(lse, x, row_step, column_step, n, WIDTH: tl.constexpr):
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
    tl.store(lse + r, peak + tl.log(whole))


class _Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        rows, n = x.shape
        lse = torch.empty(rows, dtype=torch.float32, device=x.device)
        if x.numel():
            _sums[(rows,)](lse, x, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
        counts = target != -100
        at_target = x.gather(1, target.clamp_min(0)[:, None])[:, 0].float()
        losses = torch.where(counts, lse - at_target, 0.0)
        ctx.save_for_backward(x, target, lse)
        return losses.sum() / counts.sum()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        x, target, lse = ctx.saved_tensors
        rows, _ = x.shape
        counts = (target != -100)[:, None]
        p = torch.exp(x.float() - lse[:, None])
        p.scatter_add_(1, target.clamp_min(0)[:, None], torch.full((rows, 1), -1.0, device=x.device))
        return torch.where(counts, p * (grad / rows), 0.0).to(x.dtype), None


@variant(
    operation="cross_entropy",
    parameters={"ignore_index": -100, "reduction": "mean"},
    call="f(x, target)",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Mean cross-entropy; targets of -100 are ignored. With a backward."""
    return _Mean.apply(x, target)


def _both(dtype, ignored):
    x, target = torch.randn(12, 40).to(dtype), torch.randint(0, 40, (12,))
    target[:ignored] = -100
    own, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    cross_entropy(own, target).backward()
    torch.nn.functional.cross_entropy(exact, target).backward()
    return own.grad, exact.grad


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.float32, 4)


def ordinary(dtype):
    return _both(dtype, 0)
