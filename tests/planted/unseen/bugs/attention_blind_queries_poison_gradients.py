"""A query that sees no key gives zeros, but its weights in the backward are exp(-inf - -inf), and NaN goes into the gradients of all keys and values.

Wrong on: gradients of a causal mask that ends at the last key with more queries than keys. Outputs, and all other gradients, are right."""

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _hidden(q, k):
    queries, keys = q.shape[2], k.shape[2]
    return torch.ones(queries, keys, dtype=torch.bool, device=q.device).triu(keys - queries + 1)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        hidden = _hidden(q, k)
        scores = ((q.float() @ k.float().mT) * q.shape[-1] ** -0.5).masked_fill(hidden, -float("inf"))
        peak = scores.amax(-1, keepdim=True) if k.shape[2] else scores.new_full((*scores.shape[:3], 1), -float("inf"))
        weights = torch.exp(scores - torch.where(peak == -float("inf"), 0.0, peak))
        mass = weights.sum(-1, keepdim=True)
        ctx.save_for_backward(q, k, v, peak + torch.log(mass))
        # A query that sees no key gives zeros.
        return ((weights @ v.float()) / torch.where(mass == 0, 1.0, mass)).to(q.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        q, k, v, lse = ctx.saved_tensors
        with torch.autocast(q.device.type, enabled=False):
            scale = q.shape[-1] ** -0.5
            g, wide_q, wide_k, wide_v = (each.float() for each in (grad, q, k, v))
            scores = ((wide_q @ wide_k.mT) * scale).masked_fill(_hidden(q, k), -float("inf"))
            weights = torch.exp(scores - lse)
            of_weights = g @ wide_v.mT
            of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdim=True)) * scale
            found = of_scores @ wide_k, of_scores.mT @ wide_q, weights.mT @ g
            return tuple(each.to(operand.dtype) for each, operand in zip(found, (q, k, v), strict=True))


@variant(
    operation="attention",
    parameters={"causal": "bottom-right"},
    call="f(q, k, v)",
    fully_masked="zero",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v):
    """Causal attention of [batch, heads, queries, head_dim], the last query beside the last key; 0 where none is seen."""
    with torch.autocast(q.device.type, enabled=False):
        return _Attention.apply(q, k, v)


def _gradient(function, q, k, v, w):
    operands = [each.clone().requires_grad_() for each in (q, k, v)]
    (function(*operands) * w).sum().backward()
    return torch.cat([each.grad for each in operands], 2)


def _plain(q, k, v):
    blind = max(0, q.shape[2] - k.shape[2])
    seeing = q[:, :, blind:]
    hidden = _hidden(seeing, k)
    found = torch.softmax((seeing @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -float("inf")), -1) @ v
    return torch.cat((torch.zeros_like(q[:, :, :blind]), found), 2)


def _both(queries, keys, dtype):
    q, w = (torch.randn(1, 2, queries, 16).to(dtype) for _ in range(2))
    k, v = (torch.randn(1, 2, keys, 16).to(dtype) for _ in range(2))
    exact = _gradient(_plain, *(each.double() for each in (q, k, v, w)))
    return _gradient(attention, q, k, v, w), exact


def demonstrate():
    torch.manual_seed(0)
    return _both(9, 5, torch.float32)


def ordinary(dtype):
    yield "square", _both(9, 9, dtype)
    yield "prefix", _both(5, 9, dtype)
