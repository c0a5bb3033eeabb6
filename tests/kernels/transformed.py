"""Softmax, its logarithm and log-sum-exp with soft caps, base 2 and causal masks, right and wrong."""

import torch

INF = float("inf")
LOG2E = 1.4426950408889634


def _capped(x, softcap):
    return torch.where(x == -INF, x, softcap * torch.tanh(x / softcap))


def capped(x, softcap):
    return torch.softmax(_capped(x.float(), softcap), -1).to(x.dtype)


def capped_by_a_sigmoid(scores, soft_cap, scale):
    x = scores.float() * scale
    return torch.softmax(torch.where(x == -INF, x, soft_cap * (2 * torch.sigmoid(2 * x / soft_cap) - 1)), -1).to(
        scores.dtype
    )


def capped_before_the_mask(x, mask, softcap):
    return torch.softmax(_capped(x.float(), softcap).masked_fill(mask, -INF), -1).to(x.dtype)


def logarithm_of_capped(x, softcap):
    return torch.log_softmax(_capped(x.float(), softcap), -1).to(x.dtype)


def caps_what_is_masked(x, softcap):
    return torch.softmax(softcap * torch.tanh(x.float() / softcap), -1).to(x.dtype)


def mask_before_the_cap(x, mask, softcap):
    return torch.softmax(softcap * torch.tanh(x.float().masked_fill(mask, -INF) / softcap), -1).to(x.dtype)


def clamped(x, softcap):
    return torch.softmax(torch.where(x == -INF, x, x.clamp(-softcap, softcap)).float(), -1).to(x.dtype)


def capped_by_exponentials(x, softcap):
    power = torch.exp(2 * x.float() / softcap)
    return torch.softmax(torch.where(x == -INF, -INF, softcap * (power - 1) / (power + 1)), -1).to(x.dtype)


def scaled_behind_the_cap(x, softcap, scale):
    return torch.softmax(_capped(x.float(), softcap) * scale, -1).to(x.dtype)


def binary_logarithm(x):
    return (torch.log_softmax(x.float(), -1) * LOG2E).to(x.dtype)


def natural_logarithm(x):
    return torch.log_softmax(x.float(), -1).to(x.dtype)


def softmax_of_base_two(x):
    x = x.float()
    return (
        x - torch.log2(torch.exp2(x - x.amax(-1, keepdim=True)).sum(-1, keepdim=True)) - x.amax(-1, keepdim=True)
    ).to(x.dtype)


def binary_logsumexp(x):
    top = x.float().amax(-1)
    finite = torch.where(top.abs() == INF, 0.0, top)
    return top * LOG2E + torch.log2(torch.exp(x.float() - finite[:, None]).sum(-1)) if x.shape[1] else top


def logsumexp_of_two_bases(x):
    top = x.float().amax(-1)
    return top + torch.log2(torch.exp(x.float() - top[:, None]).sum(-1))


def _hidden(x, shift):
    queries, keys = (torch.arange(size, device=x.device) for size in x.shape[-2:])
    return keys > queries[:, None] + shift


def causal(scores):
    return torch.softmax(scores.masked_fill(_hidden(scores, 0), -INF), -1)


def causal_of_heads(scores, *, is_causal=False):
    assert scores.dim() == 4
    return causal(scores) if is_causal else torch.softmax(scores, -1)


def causal_of_one(scores):
    assert scores.dim() == 2
    return causal(scores)


def causal_from_the_end(scores):
    return torch.softmax(scores.masked_fill(_hidden(scores, scores.shape[-1] - scores.shape[-2]), -INF), -1)


def causal_logarithm(scores):
    return torch.log_softmax(scores.float().masked_fill(_hidden(scores, 0), -INF), -1).to(scores.dtype)


def causal_without_the_diagonal(scores):
    return torch.softmax(scores.masked_fill(_hidden(scores, -1), -INF), -1)


def causal_by_addition(scores):
    mask = torch.zeros(scores.shape[-2:], device=scores.device).masked_fill_(_hidden(scores, 0), -INF)
    return torch.softmax(scores.float() + mask, -1).to(scores.dtype)


def causal_after_the_softmax(scores):
    return torch.softmax(scores, -1).masked_fill(_hidden(scores, 0), 0.0)


def causal_by_a_large_number(scores):
    return torch.softmax(scores.float() - 1e4 * _hidden(scores, 0), -1).to(scores.dtype)
