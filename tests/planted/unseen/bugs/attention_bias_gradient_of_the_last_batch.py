"""The gradient of a bias that all batches share is written by each batch where it should be added up, and the last one's stays.

Wrong on: gradients of a bias [1, heads, queries, keys], as of relative positions, with several batches. A bias for each batch is right."""

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, bias):
        scores = (q.float() @ k.float().mT) * q.shape[-1] ** -0.5 + bias.float()
        lse = torch.logsumexp(scores, -1, keepdim=True)
        ctx.save_for_backward(q, k, v, bias, lse)
        return (torch.softmax(scores, -1) @ v.float()).to(q.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        q, k, v, bias, lse = ctx.saved_tensors
        with torch.autocast(q.device.type, enabled=False):
            scale = q.shape[-1] ** -0.5
            g, wide_q, wide_k, wide_v = (each.float() for each in (grad, q, k, v))
            weights = torch.exp((wide_q @ wide_k.mT) * scale + bias.float() - lse)
            of_weights = g @ wide_v.mT
            of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdim=True))
            of_bias = None
            if ctx.needs_input_grad[3]:
                of_bias = torch.zeros(bias.shape, dtype=torch.float32, device=bias.device)
                for batch in range(q.shape[0]):
                    of_heads = of_scores[batch]
                    if bias.shape[1] == 1:
                        of_heads = of_heads.sum(0, keepdim=True)
                    of_bias[batch % bias.shape[0]] = of_heads
                of_bias = of_bias.to(bias.dtype)
            found = (of_scores @ wide_k) * scale, (of_scores.mT @ wide_q) * scale, weights.mT @ g
            return *(each.to(operand.dtype) for each, operand in zip(found, (q, k, v), strict=True)), of_bias


@variant(
    operation="attention",
    parameters={"biased": 1},
    call="f(q, k, v, bias)",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v, bias):
    """Attention of [batch, heads, queries, head_dim] with a bias [batch or 1, heads or 1, queries, keys], with a backward."""
    with torch.autocast(q.device.type, enabled=False):
        return _Attention.apply(q, k, v, bias)


def _plain(q, k, v, bias):
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5 + bias, -1) @ v


def _gradient(function, q, k, v, bias, w):
    bias = bias.clone().requires_grad_()
    (function(q, k, v, bias) * w).sum().backward()
    return bias.grad


def _both(batches, dtype):
    q, k, v, w = (torch.randn(3, 2, 9, 16).to(dtype) for _ in range(4))
    bias = torch.randn(batches, 2, 9, 9).to(dtype)
    exact = _gradient(_plain, *(each.double() for each in (q, k, v, bias, w)))
    return _gradient(attention, q, k, v, bias, w), exact


def demonstrate():
    torch.manual_seed(0)
    return _both(1, torch.float32)


def ordinary(dtype):
    return _both(3, dtype)
