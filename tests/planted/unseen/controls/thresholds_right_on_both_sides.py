"""Paths for one row, for tall, for narrow, for wide and for large input, each right up to and beyond its threshold."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def one_row(x):
    pieces = x.float().split(4096, dim=1)
    maxima = torch.stack([piece.amax() for piece in pieces])
    top = maxima.amax()
    total = torch.stack([torch.exp(piece - top).sum() for piece in pieces]).sum()
    return torch.cat([torch.exp(piece - top) / total for piece in pieces], 1)


def tall(x):
    return torch.cat([torch.softmax(rows.float(), 1) for rows in x.split(1000)])


def narrow(x):
    columns = x.float().unbind(1)
    top = columns[0]
    for column in columns[1:]:
        top = torch.maximum(top, column)
    weights = [torch.exp(column - top) for column in columns]
    total = sum(weights[1:], weights[0])
    return torch.stack([weight / total for weight in weights], 1)


def softmax(x):
    rows, columns = x.shape
    if rows == 0 or columns == 0:
        return torch.empty_like(x)
    if rows == 1 and columns > 8192:
        return one_row(x).to(x.dtype)
    if columns <= 4:
        return narrow(x).to(x.dtype)
    if rows >= 4096 or x.numel() > 1 << 20:
        return tall(x).to(x.dtype)
    return torch.softmax(x.float(), 1).to(x.dtype)
