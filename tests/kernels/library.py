"""Softmax as users write it without a kernel of their own."""

import torch


def functional(x):
    return torch.nn.functional.softmax(x, dim=-1)


def module(x):
    return torch.nn.Softmax(dim=-1)(x)


def through_the_logarithm(x):
    return torch.log_softmax(x.to(torch.float32), dim=-1).exp().to(x.dtype)


def over_the_first_dimension(x):
    return torch.softmax(x.t(), dim=0).t().contiguous()


def drops_the_last_column(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    return torch.cat([torch.softmax(x[:, :-1], dim=-1), torch.zeros_like(x[:, -1:])], dim=1)
