"""The backward computes the weights once more, behind a causal mask that begins at the first key; the forward's ends at the last one.

Wrong on: gradients where keys and queries differ in number, as in training behind a prefix that is cached. Square attention and all outputs are right.
"""

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _hidden(queries, keys, diagonal, device):
    return torch.ones(queries, keys, dtype=torch.bool, device=device).triu(diagonal + 1)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        queries, keys = q.shape[2], k.shape[2]
        scores = (q.float() @ k.float().mT) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(_hidden(queries, keys, keys - queries, q.device), -float("inf"))
        ctx.save_for_backward(q, k, v, torch.logsumexp(scores, -1, keepdim=True))
        return (torch.softmax(scores, -1) @ v.float()).to(q.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        q, k, v, lse = ctx.saved_tensors
        with torch.autocast(q.device.type, enabled=False):
            scale = q.shape[-1] ** -0.5
            g, wide_q, wide_k, wide_v = (each.float() for each in (grad, q, k, v))
            weights = torch.exp((wide_q @ wide_k.mT) * scale - lse)
            weights = weights.masked_fill(_hidden(q.shape[2], k.shape[2], 0, q.device), 0.0)
            of_weights = g @ wide_v.mT
            of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdim=True)) * scale
            found = of_scores @ wide_k, of_scores.mT @ wide_q, weights.mT @ g
            return tuple(each.to(operand.dtype) for each, operand in zip(found, (q, k, v), strict=True))


@variant(
    operation="attention",
    parameters={"causal": "bottom-right"},
    call="f(q, k, v)",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v):
    """Causal attention of [batch, heads, queries, head_dim], the last query beside the last key, with a backward."""
    with torch.autocast(q.device.type, enabled=False):
        return _Attention.apply(q, k, v)


def _gradient(function, q, k, v, w):
    (function(q, k, v) * w).sum().backward()
    return v.grad


def _plain(q, k, v):
    hidden = _hidden(q.shape[2], k.shape[2], k.shape[2] - q.shape[2], q.device)
    return torch.softmax((q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -float("inf")), -1) @ v


def _both(queries, keys, dtype):
    shapes = ((1, 2, queries, 16), (1, 2, keys, 16), (1, 2, keys, 16))
    q, k, v = (torch.randn(shape).to(dtype) for shape in shapes)
    w = torch.randn(shapes[0])
    given = _gradient(attention, q, k, v.clone().requires_grad_(), w.to(dtype))
    return given, _gradient(_plain, q.double(), k.double(), v.double().requires_grad_(), w.to(dtype).double())


def demonstrate():
    torch.manual_seed(0)
    return _both(5, 9, torch.float32)


def ordinary(dtype):
    return _both(9, 9, dtype)
