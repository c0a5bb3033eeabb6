"""Softmax functions that take masks and scales, right and wrong."""

import torch

import softcheck

INF = float("inf")


def takes_what_is_hidden(x, mask):
    return torch.softmax(x.masked_fill(mask, -INF), -1)


def takes_what_is_kept(x, mask):
    return torch.softmax(torch.where(mask, x, -INF), -1)


def takes_a_bias(x, attn_mask):
    return torch.softmax(x + attn_mask, -1)


def adds_a_large_number(x, mask):
    return torch.softmax(x + mask.to(x.dtype) * -30000.0, -1)


def multiplies_by_the_mask(x, mask):
    kept = (~mask).to(x.dtype)
    e = torch.exp(x - x.max(dim=-1, keepdim=True).values) * kept
    return e / e.sum(dim=-1, keepdim=True)


def forgets_the_last_column_of_the_mask(x, mask):
    mask = mask.clone()
    mask[:, -1:] = False
    return torch.softmax(x.masked_fill(mask, -INF), -1)


def masks_in_place(x, mask):
    return torch.softmax(x.masked_fill_(mask, -INF), -1)


def changes_the_mask(x, mask):
    mask.logical_not_()
    return torch.softmax(torch.where(mask, x, -INF), -1)


def changes_the_bias(x, bias):
    return torch.softmax(bias.add_(x), -1)


@softcheck.variant(parameters={"scale": 0.3})
def scaled(x, scale=1.0):
    return torch.softmax(x.float() * scale, -1).to(x.dtype)


@softcheck.variant(parameters={"scale": 1.25})
def sharpened(x, *, temperature):
    return torch.softmax(x.float() / temperature, -1).to(x.dtype)


@softcheck.variant(parameters={"scale": 0.25})
def scaled_inside(x):
    return torch.softmax(x.float() * 0.25, -1).to(x.dtype)


@softcheck.variant(parameters={"scale": 0.125})
def by_temperature(x, *, temperature):
    return torch.softmax(x.float() / temperature, -1).to(x.dtype)


@softcheck.variant(parameters={"scale": 0.3})
def scale_of_three_digits(x, scale):
    return torch.softmax(x.float() * round(scale * 1.001, 5), -1).to(x.dtype)


@softcheck.variant(parameters={"scale": 0.3})
def scale_left_out(x, scale):
    return torch.softmax(x, -1)


@softcheck.variant(parameters={"scale": 0.3})
def scales_the_maximum_only(x, scale):
    e = torch.exp(x.float() * scale - x.float().max(dim=-1, keepdim=True).values)
    return (e / e.sum(dim=-1, keepdim=True)).to(x.dtype)
