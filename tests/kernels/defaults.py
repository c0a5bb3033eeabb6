"""Functions whose parameters have defaults at which they do something, right and wrong."""

import torch


def of_half_the_temperature(x, temperature=0.5):
    return torch.softmax(x.float() / temperature, -1).to(x.dtype)


def overlooks_its_temperature(x, temperature=0.5):
    return torch.softmax(x.float(), -1).to(x.dtype)


def of_temperature_and_scale(x, temperature=0.5, scale=1.0):
    return torch.softmax(x.float() * scale / temperature, -1).to(x.dtype)


def of_a_word(x, temperature="auto"):
    return torch.softmax(x.float(), -1).to(x.dtype)


def of_another_alpha(x, alpha=1.5):
    return torch.softmax(x.float(), -1).to(x.dtype)


class Warm(torch.nn.Module):
    def __init__(self, dim=-1, temperature=2.0):
        super().__init__()
        self.dim, self.temperature = dim, temperature

    def forward(self, x):
        return torch.softmax(x / self.temperature, self.dim)


def smoothed(logits, target, ignore_index=-100, label_smoothing=0.1):
    return torch.nn.functional.cross_entropy(
        logits.float(), target, reduction="none", ignore_index=ignore_index, label_smoothing=label_smoothing
    )


def smoothed_too_much(logits, target, ignore_index=-100, label_smoothing=1.5):
    return torch.nn.functional.cross_entropy(logits.float(), target, reduction="none", ignore_index=ignore_index)


def mean(logits, target, reduction="mean"):
    return torch.nn.functional.cross_entropy(logits.float(), target, reduction=reduction)


def _attended(q, k, v, *, scale, causal):
    scores = (q.float() @ k.float().mT) * scale
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), float("-inf"))
    return (scores.softmax(-1) @ v.float()).to(q.dtype)


def causal(q, k, v, is_causal=True):  # noqa: FBT002 - the default is what is read
    return _attended(q, k, v, scale=q.shape[-1] ** -0.5, causal=is_causal)


def by_the_root(q, k, v, scale=None):
    return _attended(q, k, v, scale=q.shape[-1] ** -0.5 if scale is None else scale, causal=False)


def by_the_dimension(q, k, v, scale=None):
    return _attended(q, k, v, scale=1 / q.shape[-1] if scale is None else scale, causal=False)


def wrong_with_any_scale(q, k, v, scale=None):
    return by_the_root(q, k, v, scale) * 1.5 + 0.5


def unscaled(q, k, v, scale=1.0):
    return _attended(q, k, v, scale=scale, causal=False)


def in_a_window(q, k, v, window_size=(-1, -1), softcap=0.0):
    return _attended(q, k, v, scale=q.shape[-1] ** -0.5, causal=False)


def in_a_window_alone(q, k, v, window_size=128):
    return _attended(q, k, v, scale=q.shape[-1] ** -0.5, causal=False)
