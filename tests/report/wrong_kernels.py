"""Honest slips in functions of the family, each as people make it, and right functions beside them."""

import math

import torch


def right(x):
    return torch.softmax(x.float(), -1).to(x.dtype)


def epsilon(x):
    e = (x.float() - x.float().amax(-1, keepdim=True)).exp()
    return (e / (e.sum(-1, keepdim=True) + 1e-6)).to(x.dtype)


def large_epsilon(x):
    e = (x.float() - x.float().amax(-1, keepdim=True)).exp()
    return (e / (e.sum(-1, keepdim=True) + 1e-2)).to(x.dtype)


def zeros_beyond_the_row(x):
    columns = x.shape[-1]
    padded = torch.nn.functional.pad(x.float(), (0, (1 << max(0, columns - 1).bit_length()) - columns))
    return torch.softmax(padded, -1)[..., :columns].to(x.dtype)


def zeros_beyond_tiles(x):
    columns = x.shape[-1]
    padded = torch.nn.functional.pad(x.float(), (0, -columns % 64))
    return torch.softmax(padded, -1)[..., :columns].to(x.dtype)


def not_rescaled(x, tile=128):
    x32 = x.float()
    top = torch.full_like(x32[:, :1], -torch.inf)
    total = torch.zeros_like(top)
    for start in range(0, x.shape[-1], tile):
        part = x32[:, start : start + tile]
        top = torch.maximum(top, part.amax(-1, keepdim=True))
        total = total + (part - top).exp().sum(-1, keepdim=True)
    return ((x32 - top).exp() / total).to(x.dtype)


def not_rescaled_logsumexp(x):
    x32 = x.float()
    top, total = torch.full_like(x32[:, :1], -torch.inf), torch.zeros_like(x32[:, :1])
    for start in range(0, x.shape[-1], 64):
        part = x32[:, start : start + 64]
        top = torch.maximum(top, part.amax(-1, keepdim=True))
        total = total + torch.where(top.isneginf(), 0.0, (part - top).exp().sum(-1, keepdim=True))
    return top + total.log()


def no_maximum(x):
    e = x.float().exp()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def exp2_for_exp(x):
    return torch.softmax(x.float() * math.log(2.0), -1).to(x.dtype)


def scaled(x):
    return torch.softmax(x.float() * 0.9, -1).to(x.dtype)


def scaled_logarithm(x):
    return torch.log_softmax(x.float() * 0.9, -1).to(x.dtype)


def sixteen_bits(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.cumsum(-1)[..., -1:]


def columns_left_out(x):
    x32 = x.float()
    top = x32[:, :512].amax(-1, keepdim=True)
    e = (x32 - top).exp()
    return (e / e[:, :512].sum(-1, keepdim=True)).to(x.dtype)


def nothing_beyond(x):
    y = torch.empty_like(x)
    y[:, :512] = torch.softmax(x[:, :512].float(), -1).to(x.dtype)
    return y


def nan_left_out(x):
    return torch.softmax(x.float().nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf), -1).to(x.dtype)


def capped(x):
    return torch.softmax(x.float().clamp(-50, 50), -1).to(x.dtype)


def low_mask(x):
    hidden = x.isneginf()
    return torch.softmax(torch.where(hidden, -1e6, x.float()), -1).to(x.dtype)


def scaled_noisily(x):
    factor = 1 + 0.1 * torch.sin(17 * x.float().nan_to_num(0, 0, 0))
    return torch.softmax(x.float() * factor, -1).to(x.dtype)


def sums_halved(x):
    return (torch.softmax(x.float(), -1) * torch.where(x.sum(-1, keepdim=True).abs() % 1 > 0.5, 0.5, 0.6)).to(x.dtype)
