"""A causal softmax of each row's outer shape: query i of a row sees its first i + 1 logits. An operation whose answers have parts."""

from dataclasses import replace

import numpy as np
import torch

from softcheck.operations.block import reshaped
from softcheck.operations.operation import Operand
from softcheck.operations.softmax import SOFTMAX


def parts(columns):
    return columns, columns


def logits(values, _fmt):
    rows, columns = values.shape
    hidden = np.triu(np.ones((columns, columns), dtype=bool), 1)
    return np.where(hidden, -np.inf, np.broadcast_to(values[:, None], (rows, columns, columns))).reshape(-1, columns)


def answer(values, fmt, masked):
    return reshaped(SOFTMAX.answer(logits(values, fmt), fmt, masked), (len(values), values.shape[1] ** 2))


def prove(values, fmt, masked):
    return reshaped(SOFTMAX.prove(logits(values, fmt), fmt, masked), (len(values), values.shape[1] ** 2))


def yardstick(x):
    hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    scores = x[:, None].expand(-1, x.shape[1], -1).masked_fill(hidden, float("-inf"))
    return torch.softmax(scores, dim=-1).flatten(1)


CAUSAL = replace(
    SOFTMAX,
    name="causal",
    outputs=(Operand("y", ("rows", "queries", "columns")),),
    families=("normal", "padding", "special", "ties", "one-column"),
    relations=(),
    answer=answer,
    prove=prove,
    bounds=lambda values, exact, answers, model: SOFTMAX.bounds(logits(values, exact.fmt), exact, answers, model),
    yardstick=yardstick,
    parameters={},
    with_parameters=None,
    gradient=None,
    parts=parts,
    logits=logits,
    arguments=None,
    on_device=None,
)
