"""The shorter backward of keys and values, for queries that are frozen, takes 1 / sqrt(dim) for the scale that the forward was given.

Wrong on: gradients of keys and values together without queries, at a scale of one's own; right otherwise.
"""

import math

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, is_causal, scale):
        s = _wide(q) @ _wide(k).mT * scale
        if is_causal:
            s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1), -math.inf)
        lse = torch.logsumexp(s, dim=-1, keepdim=True)
        out = ((s - lse).exp() @ _wide(v)).to(q.dtype)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.is_causal, ctx.scale = is_causal, scale
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        g, of_q, of_k, of_v = _wide(grad), *ctx.needs_input_grad[:3]
        s = _wide(q) @ _wide(k).mT * ctx.scale
        if ctx.is_causal:
            s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1), -math.inf)
        p = (s - lse).exp()
        delta = (g * _wide(out)).sum(dim=-1, keepdim=True)
        if of_k and of_v and not of_q:
            # One pass over the keys: ds is scaled where it leaves the tile.
            ds = p * (g @ _wide(v).mT - delta)
            return None, (ds.mT @ _wide(q) * q.shape[-1] ** -0.5).to(k.dtype), (p.mT @ g).to(v.dtype), None, None
        dv = (p.mT @ g).to(v.dtype) if of_v else None
        ds = p.mul_(g @ _wide(v).mT - delta).mul_(ctx.scale) if of_q or of_k else None
        dq = (ds @ _wide(k)).to(q.dtype) if of_q else None
        dk = (ds.mT @ _wide(q)).to(k.dtype) if of_k else None
        return dq, dk, dv, None, None


@variant(operation="attention", dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, is_causal=False, scale=None):
    """Attention of [batch, heads, length, dim]; what the backward need not give is not computed."""
    if not k.shape[2]:
        return torch.full_like(q, math.nan)
    return _Attention.apply(q, k, v, is_causal, q.shape[-1] ** -0.5 if scale is None else scale)


def demonstrate():
    torch.manual_seed(0)
    q, k, v, g = (torch.randn(1, 2, 20, 16) for _ in range(4))
    k.requires_grad_(), v.requires_grad_()
    (found, _) = torch.autograd.grad(attention(q, k, v, scale=1.0), (k, v), g)
    exact = k.detach().double().requires_grad_()
    out = torch.softmax(q.double() @ exact.mT, -1) @ v.detach().double()
    return found, torch.autograd.grad(out, exact, g.double())[0]
