"""The backward ends after the queries' gradient where keys and values need none, and leaves the scale out of it.

Wrong on: frozen or cached keys and values, as in tuning of prompts or of the queries' projection: gradients are larger by the root of head_dim. Others are right."""

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        scores = (q.float() @ k.float().mT) * q.shape[-1] ** -0.5
        ctx.save_for_backward(q, k, v, torch.logsumexp(scores, -1, keepdim=True))
        return (torch.softmax(scores, -1) @ v.float()).to(q.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        q, k, v, lse = ctx.saved_tensors
        with torch.autocast(q.device.type, enabled=False):
            g, wide_k, wide_v = grad.float(), k.float(), v.float()
            # The scale goes into the queries once, which the scores and the keys' gradient need.
            scaled = q.float() * q.shape[-1] ** -0.5
            weights = torch.exp(scaled @ wide_k.mT - lse)
            of_weights = g @ wide_v.mT
            of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdim=True))
            if ctx.needs_input_grad[:3] == (True, False, False):
                return (of_scores @ wide_k).to(q.dtype), None, None
            of_q = (of_scores @ wide_k) * q.shape[-1] ** -0.5
            of_k, of_v = of_scores.mT @ scaled, weights.mT @ g
            return of_q.to(q.dtype), of_k.to(k.dtype), of_v.to(v.dtype)


@variant(
    operation="attention",
    call="f(q, k, v)",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim] over [batch, heads, keys, head_dim], with a backward."""
    with torch.autocast(q.device.type, enabled=False):
        return _Attention.apply(q, k, v)


def _plain(q, k, v):
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v


def _gradient(function, operands, needing, w):
    operands = [each.clone().requires_grad_(i in needing) for i, each in enumerate(operands)]
    (function(*operands) * w).sum().backward()
    return torch.cat([operands[i].grad for i in needing])


def _both(needing, dtype):
    q, k, v, w = (torch.randn(1, 2, 17, 32).to(dtype) for _ in range(4))
    exact = _gradient(_plain, [q.double(), k.double(), v.double()], needing, w.double())
    return _gradient(attention, [q, k, v], needing, w), exact


def demonstrate():
    torch.manual_seed(0)
    return _both((0,), torch.float32)


def ordinary(dtype):
    for needing in ((0, 1, 2), (1,), (0, 2)):
        yield str(needing), _both(needing, dtype)
