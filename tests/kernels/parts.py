"""Functions of the operation with parts that the tests define, ``tests/operations/toy_parts.py``: [rows, columns, columns] from a row."""

import torch

from softcheck import variant


def scores(x):
    hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    return x.float()[:, None].expand(-1, x.shape[1], -1).masked_fill(hidden, float("-inf"))


@variant(operation="causal")
def right(x):
    return torch.softmax(scores(x), dim=-1).to(x.dtype)


@variant(operation="causal")
def sees_its_right_neighbour(x):
    seen = torch.where(torch.eye(x.shape[1], dtype=torch.bool).roll(1, 1).triu(1), x.float()[:, None], scores(x))
    return torch.softmax(seen, dim=-1).to(x.dtype)


@variant(operation="causal")
def wrong_in_the_last_query(x):
    y = right(x)
    y[:, -1] *= 1.02
    return y


@variant(operation="causal")
def flat(x):
    return right(x)[:, 0]
