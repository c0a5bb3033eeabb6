"""Blocks of queries read the keys that they see alone, forward and backward, under a causal mask, a window, a soft cap, sinks and shared heads together."""

import math

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

BLOCK = 96


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


def _reach(start, end, keys, is_causal, window):
    """Returns the first key and the key behind the last that queries from start up to end see."""
    last = min(keys, end) if is_causal else keys
    first = max(0, start - window + 1) if is_causal and window else 0
    return min(first, last), last


def _scores(q, k, scale, softcap, start, first, is_causal, window):
    raw = _wide(q) @ _wide(k).mT * scale
    capped = softcap * torch.tanh(raw / softcap) if softcap else raw
    s = capped
    if is_causal:
        row = torch.arange(start, start + q.shape[-2], device=q.device)[:, None]
        column = torch.arange(first, first + k.shape[-2], device=q.device)
        hidden = column > row
        hidden = hidden | (column <= row - window) if window else hidden
        s = capped.masked_fill(hidden, -math.inf)
    return s, capped


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, sinks, scale, softcap, is_causal, window):
        queries, keys = q.shape[-2], k.shape[-2]
        out = torch.empty(*q.shape[:-1], v.shape[-1], dtype=q.dtype, device=q.device)
        lse = torch.empty(q.shape[:-1], dtype=_wide(q).dtype, device=q.device)
        for start in range(0, queries, BLOCK):
            end = min(queries, start + BLOCK)
            first, last = _reach(start, end, keys, is_causal, window)
            s, _ = _scores(q[..., start:end, :], k[..., first:last, :], scale, softcap, start, first, is_causal, window)
            total = s.logsumexp(dim=-1)
            if sinks is not None:
                total = torch.logaddexp(total, _wide(sinks)[..., None])
            out[..., start:end, :] = (s - total[..., None]).exp() @ _wide(v[..., first:last, :])
            lse[..., start:end] = total
        ctx.save_for_backward(q, k, v, sinks, lse)
        ctx.options = scale, softcap, is_causal, window
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        q, k, v, sinks, lse = ctx.saved_tensors
        scale, softcap, is_causal, window = ctx.options
        queries, keys = q.shape[-2], k.shape[-2]
        dq = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        dk, dv = torch.zeros_like(_wide(k)), torch.zeros_like(_wide(v))
        dsinks = None if sinks is None else torch.zeros_like(_wide(sinks))
        for start in range(0, queries, BLOCK):
            end = min(queries, start + BLOCK)
            first, last = _reach(start, end, keys, is_causal, window)
            seen, part = slice(first, last), slice(start, end)
            s, capped = _scores(q[..., part, :], k[..., seen, :], scale, softcap, start, first, is_causal, window)
            g = _wide(grad[..., part, :])
            p = (s - lse[..., part, None]).exp()
            dp = g @ _wide(v[..., seen, :]).mT
            delta = (p * dp).sum(dim=-1)
            ds = p * (dp - delta[..., None]) * scale
            if softcap:
                ds = ds * (1 - (capped / softcap).square())
            dq[..., part, :] = ds @ _wide(k[..., seen, :])
            dk[..., seen, :] += (ds.mT @ _wide(q[..., part, :])).sum(dim=2, keepdim=True)
            dv[..., seen, :] += (p.mT @ g).sum(dim=2, keepdim=True)
            if sinks is not None:
                dsinks -= ((_wide(sinks)[..., None] - lse[..., part]).exp() * delta).sum(dim=(0, -1))
        return (
            dq,
            dk.to(k.dtype),
            dv.to(v.dtype),
            None if sinks is None else dsinks.to(sinks.dtype),
            None,
            None,
            None,
            None,
        )


@variant(operation="attention", dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, is_causal=False, scale=None, enable_gqa=False, window=0, softcap=0.0, sinks=None):
    """Attention of q [batch, heads, queries, dim], k [batch, kv_heads, keys, dim], v [batch, kv_heads, keys, value_dim], sinks [heads].

    is_causal is torch's (query 0 sees key 0); window counts the keys up to a query's own place. A query that sees none is NaN without a sink.
    """
    heads, kv_heads = q.shape[1], k.shape[1]
    if heads != kv_heads and not (enable_gqa and heads % kv_heads == 0):
        raise ValueError(f"{heads} heads of queries and {kv_heads} of keys")
    if window and not is_causal:
        raise ValueError("a window needs is_causal")
    if not q.numel() or not k.numel():
        return (q.float() @ k.repeat_interleave(heads // kv_heads, 1).float().mT).softmax(-1).to(
            v.dtype
        ) @ v.repeat_interleave(heads // kv_heads, 1)
    groups = (kv_heads, heads // kv_heads)
    own = None if sinks is None else sinks.unflatten(0, groups)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return _Attention.apply(
        q.unflatten(1, groups), k.unsqueeze(2), v.unsqueeze(2), own, scale, softcap, is_causal, window
    ).flatten(1, 2)
