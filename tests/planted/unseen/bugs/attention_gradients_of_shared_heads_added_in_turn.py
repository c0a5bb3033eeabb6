"""The backward adds up the heads that share keys as if they came in turn: it folds heads into (groups, kv_heads) in place of (kv_heads, groups).

Wrong on: gradients of keys and values with more than one kv head and fewer of them than heads; right otherwise.
"""

import math

import torch

OPERATION = "attention"
EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


def _scores(q, k, scale, is_causal):
    s = _wide(q) @ _wide(k).mT * scale
    if is_causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1), -math.inf)
    return s


def _for_each_head(t, heads):
    return t if t.shape[1] == heads else t.repeat_interleave(heads // t.shape[1], dim=1)


def _of_kv_heads(t, kv_heads):
    """Adds up what the query heads of each shared head have found."""
    batch, heads, keys, dim = t.shape
    if heads == kv_heads:
        return t
    return t.reshape(batch, heads // kv_heads, kv_heads, keys, dim).sum(dim=1)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, is_causal):
        s = _scores(q, _for_each_head(k, q.shape[1]), scale, is_causal)
        lse = s.logsumexp(dim=-1, keepdim=True)
        out = ((s - lse).exp() @ _wide(_for_each_head(v, q.shape[1]))).to(q.dtype)
        ctx.save_for_backward(q, k, v, lse)
        ctx.options = scale, is_causal
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        q, k, v, lse = ctx.saved_tensors
        scale, is_causal = ctx.options
        heads, kv_heads = q.shape[1], k.shape[1]
        keys, values = _for_each_head(k, heads), _for_each_head(v, heads)
        p = (_scores(q, keys, scale, is_causal) - lse).exp()
        g = _wide(grad)
        dp = g @ _wide(values).mT
        ds = p * (dp - (dp * p).sum(dim=-1, keepdim=True)) * scale
        dq = dk = dv = None
        if ctx.needs_input_grad[0]:
            dq = (ds @ _wide(keys)).to(q.dtype)
        if ctx.needs_input_grad[1]:
            dk = _of_kv_heads(ds.mT @ _wide(q), kv_heads).to(k.dtype)
        if ctx.needs_input_grad[2]:
            dv = _of_kv_heads(p.mT @ g, kv_heads).to(v.dtype)
        return dq, dk, dv, None, None


def attention(q, k, v, is_causal=False, scale=None, enable_gqa=False):
    """Attention of q [batch, heads, queries, dim], k and v [batch, kv_heads, keys, dim]. The backward makes the probabilities again."""
    if q.shape[1] != k.shape[1] and not (enable_gqa and q.shape[1] % k.shape[1] == 0):
        raise ValueError(f"{q.shape[1]} heads of queries and {k.shape[1]} of keys")
    return _Attention.apply(q, k, v, q.shape[-1] ** -0.5 if scale is None else scale, is_causal)


def _exact(q, k, v):
    k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


def demonstrate():
    torch.manual_seed(0)
    q, k, v, w = (torch.randn(2, heads, 20, 16) for heads in (6, 2, 2, 6))
    k.requires_grad_()
    attention(q, k, v, enable_gqa=True).backward(w)
    exact = k.detach().double().requires_grad_()
    _exact(q.double(), exact, v.double()).backward(w.double())
    return k.grad, exact.grad
