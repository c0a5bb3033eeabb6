"""Attention by single operations, in the signatures that users write, right and wrong."""

import math

import torch

from softcheck import variant

SMALL = {"head_dim": 16}


def attend(q, k, v, keep=None, scale=None):
    """[batch, heads, queries, d] in float32, weights in the input's dtype, as fused kernels have it."""
    groups = q.shape[1] // k.shape[1]
    k, v = (tensor.repeat_interleave(groups, dim=1) for tensor in (k, v))
    scores = (q.float() @ k.float().mT) * (scale or 1 / math.sqrt(q.shape[-1]))
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    top = scores.amax(dim=-1, keepdim=True)
    weights = torch.exp(scores - top)
    total = weights.sum(dim=-1, keepdim=True)
    return ((weights.to(v.dtype).float() @ v.float()) / total).to(q.dtype), (top + total.log())[..., 0]


def causal(q, k, offset=0):
    keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
    return keep.tril(offset)


@variant(operation="attention", parameters=SMALL)
def by_heads(q, k, v):
    return attend(q, k, v)[0]


@variant(operation="attention", parameters=SMALL)
def with_logarithm(query, key, value, scale=None):
    return attend(query, key, value, scale=scale)


@variant(operation="attention", parameters={**SMALL, "causal": "bottom-right", "queries": 5})
def by_length(q, k, v, causal=None):
    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2]) if causal else None
    return attend(q, k, v, keep)[0].transpose(1, 2)


@variant(operation="attention", parameters={**SMALL, "scale": 0.3})
def of_three_dimensions(q, k, v, sm_scale):
    heads, length, d = q.shape
    return attend(*(part.view(1, heads, -1, d) for part in (q, k, v)), scale=sm_scale)[0].view(heads, length, d)


@variant(operation="attention", parameters={**SMALL, "masked": 1})
def with_mask(q, k, v, attn_mask=None):
    return attend(q, k, v, attn_mask)[0]


@variant(operation="attention", parameters={**SMALL, "masked": 1})
def with_added_mask(q, k, v, attn_mask):
    scores = (q.float() @ k.float().mT) / math.sqrt(q.shape[-1]) + attn_mask.float()
    return (torch.softmax(scores, dim=-1).to(v.dtype).float() @ v.float()).to(q.dtype)


@variant(operation="attention", parameters={**SMALL, "masked": 1, "ignores_nan": 1}, fully_masked="zero")
def that_selects(q, k, v, keep):
    hidden = ~keep.any(dim=-2)[..., None]
    o = attend(q, k.masked_fill(hidden, 0), v.masked_fill(hidden, 0), keep)[0]
    return torch.where(keep.any(dim=-1, keepdim=True), o, 0)


@variant(operation="attention", parameters={**SMALL, "groups": 2, "causal": "top-left", "window": 7})
def with_shared_keys(q, k, v, is_causal, window):
    keep = causal(q, k) & causal(q, k, -window).logical_not()
    return attend(q, k, v, keep)[0]


@variant(operation="attention", parameters={**SMALL, "softcap": 5.0, "sink": 0.5})
def capped_with_sinks(q, k, v, softcap, sinks):
    scores = softcap * torch.tanh((q.float() @ k.float().mT) / math.sqrt(q.shape[-1]) / softcap)
    sink = sinks.float()[None, :, None, None].expand(*scores.shape[:-1], 1)
    weights = torch.softmax(torch.cat([scores, sink], dim=-1), dim=-1)[..., :-1]
    return (weights.to(v.dtype).float() @ v.float()).to(q.dtype)


@variant(operation="attention", parameters=SMALL)
def scores_of_16_bits(q, k, v):
    return torch.softmax((q @ k.mT) * q.shape[-1] ** -0.5, dim=-1) @ v


@variant(operation="attention", parameters=SMALL)
def answers_beyond_all_values(q, k, v):
    o = attend(q, k, v)[0]
    o[..., 0, :] = v.amax(dim=-2) + v.abs().amax(dim=-2) / 16
    return o


@variant(operation="attention", parameters={**SMALL, "masked": 1}, fully_masked="zero")
def mean_where_nothing_is_seen(q, k, v, keep):
    return torch.where(keep.any(dim=-1, keepdim=True), attend(q, k, v, keep)[0], v.mean(dim=-2, keepdim=True))


@variant(operation="attention_logsumexp", parameters=SMALL)
def logarithms(q, k, v):
    return attend_with_logarithm(q, k, v)


@variant(operation="attention_logsumexp", parameters={**SMALL, "base": 2, "masked": 1})
def logarithms_of_base_two(q, k, v, keep):
    o, lse = attend_with_logarithm(q, k, v, keep)
    return o, lse / math.log(2)


@variant(operation="attention_logsumexp", parameters={**SMALL, "base": 2})
def logarithms_of_another_base(q, k, v):
    return attend_with_logarithm(q, k, v)


@variant(operation="attention_logsumexp", parameters={**SMALL, "masked": 1})
def infinite_without_keys(q, k, v, keep):
    o, lse = attend_with_logarithm(q, k, v, keep)
    return o, torch.where(keep.any(dim=-1), lse, float("inf"))


def attend_with_logarithm(q, k, v, keep=None):
    scores = (q.float() @ k.float().mT) / math.sqrt(q.shape[-1])
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    return attend(q, k, v, keep)[0], torch.logsumexp(scores, dim=-1)
