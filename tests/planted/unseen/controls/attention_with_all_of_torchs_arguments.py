"""Attention in plain torch with all arguments of torch's own: masks of both kinds, causal, scale, grouped heads; computed in float32 outside of autocast."""

import torch

OPERATION = "attention"
FUNCTION = "scaled_dot_product_attention"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """As torch.nn.functional.scaled_dot_product_attention, without dropout. A query that sees no key gives NaN."""
    if dropout_p:
        raise NotImplementedError("dropout is not supported")
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    with torch.autocast(query.device.type, enabled=False):
        scores = torch.matmul(query.float(), key.float().transpose(-2, -1)) * scale
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
        elif attn_mask is not None:
            scores = scores + attn_mask
        if is_causal:
            future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(future, float("-inf"))
        return torch.matmul(torch.softmax(scores, dim=-1), value.float()).to(query.dtype)


def _exact(q, k, v, hidden=None, bias=0.0, scale=None):
    times = q.shape[1] // k.shape[1]
    k, v = (each.double().repeat_interleave(times, 1) for each in (k, v))
    scores = q.double() @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    return (scores if hidden is None else scores.masked_fill(hidden, float("-inf"))).softmax(-1) @ v


def ordinary(dtype):
    f = scaled_dot_product_attention
    q, k, v = (torch.randn(2, 4, n, 64).to(dtype) for n in (17, 33, 33))
    keep = torch.rand(2, 1, 17, 33) < 0.5
    keep[0, 0, 3] = False
    bias = torch.randn(4, 17, 33).to(dtype)
    yield "plain", (f(q, k, v), _exact(q, k, v))
    yield "causal", (f(q, k, v, is_causal=True), _exact(q, k, v, torch.ones(17, 33, dtype=torch.bool).triu(1)))
    yield "masked", (f(q, k, v, keep), _exact(q, k, v, ~keep))
    yield "biased", (f(q, k, v, bias), _exact(q, k, v, bias=bias.double()))
    yield "scaled", (f(q, k, v, scale=0.0), _exact(q, k, v, scale=0.0))
    yield "grouped", (f(q, k[:, :2], v[:, :2], enable_gqa=True), _exact(q, k[:, :2], v[:, :2]))
    yield "one key", (f(q, k[:, :, :1], v[:, :, :1]), _exact(q, k[:, :, :1], v[:, :, :1]))
    lain = [torch.randn(2, 9, 4, 64).to(dtype).transpose(1, 2) for _ in range(3)]
    yield "transposed", (f(*lain), _exact(*lain))
