"""The backward goes through the queries in chunks, and each chunk's gradient of the sinks takes the place of the one before: ``=`` for ``+=``.

Wrong on: the gradient of the sinks with more than 128 queries; right otherwise.
"""

import math

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

CHUNK = 128


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


def _scores(q, k, scale, first, is_causal):
    s = _wide(q) @ _wide(k).mT * scale
    if is_causal:
        row = torch.arange(first, first + q.shape[-2], device=q.device)[:, None]
        s = s.masked_fill(torch.arange(k.shape[-2], device=q.device) > row, -math.inf)
    return s


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, sinks, scale, is_causal):
        """q is [batch, kv_heads, group, queries, dim], sinks [kv_heads, group]; k and v have one in the group's place."""
        out = torch.empty(*q.shape[:-1], v.shape[-1], dtype=q.dtype, device=q.device)
        lse = torch.empty(q.shape[:-1], dtype=_wide(q).dtype, device=q.device)
        for first in range(0, q.shape[-2], CHUNK):
            part = slice(first, first + CHUNK)
            s = _scores(q[..., part, :], k, scale, first, is_causal)
            with_sink = torch.logaddexp(s.logsumexp(dim=-1), _wide(sinks)[:, :, None])
            out[..., part, :] = (s - with_sink[..., None]).exp() @ _wide(v)
            lse[..., part] = with_sink
        ctx.save_for_backward(q, k, v, sinks, out, lse)
        ctx.options = scale, is_causal
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        q, k, v, sinks, _, lse = ctx.saved_tensors
        scale, is_causal = ctx.options
        dq = torch.empty_like(q)
        dk, dv = torch.zeros_like(_wide(k)), torch.zeros_like(_wide(v))
        dsinks = torch.zeros_like(_wide(sinks))
        for first in range(0, q.shape[-2], CHUNK):
            part = slice(first, first + CHUNK)
            queries, g = _wide(q[..., part, :]), _wide(grad[..., part, :])
            p = (_scores(queries, k, scale, first, is_causal) - lse[..., part, None]).exp()
            dp = g @ _wide(v).mT
            delta = (p * dp).sum(dim=-1)
            ds = p * (dp - delta[..., None]) * scale
            dq[..., part, :] = ds @ _wide(k)
            dk += (ds.mT @ queries).sum(dim=2, keepdim=True)
            dv += (p.mT @ g).sum(dim=2, keepdim=True)
            dsinks = -((_wide(sinks)[:, :, None] - lse[..., part]).exp() * delta).sum(dim=(0, -1))
        return dq, dk.to(k.dtype), dv.to(v.dtype), dsinks.to(sinks.dtype), None, None


@variant(operation="attention", parameters={"sink": 1.0}, dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, sinks, is_causal=False, scale=None):
    """Attention with a sink for each head: a logit that takes its share of each query's probabilities and has no value.

    q is [batch, heads, queries, dim], k and v are [batch, kv_heads, keys, dim], sinks [heads].
    """
    kv_heads, groups = k.shape[1], q.shape[1] // k.shape[1]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    out = _Attention.apply(
        q.unflatten(1, (kv_heads, groups)),
        k.unsqueeze(2),
        v.unsqueeze(2),
        sinks.view(kv_heads, groups),
        scale,
        is_causal,
    )
    return out.flatten(1, 2)


def _exact(q, k, v, sinks):
    k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    scores = q @ k.mT * q.shape[-1] ** -0.5
    total = torch.logaddexp(scores.logsumexp(-1, keepdim=True), sinks[:, None, None])
    return (scores - total).exp() @ v


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, 140, 16), torch.randn(1, 2, 60, 16), torch.randn(1, 2, 60, 16)
    sinks = torch.randn(4, requires_grad=True)
    attention(q, k, v, sinks).sum().backward()
    exact = sinks.detach().double().requires_grad_()
    _exact(q.double(), k.double(), v.double(), exact).sum().backward()
    return sinks.grad, exact.grad
