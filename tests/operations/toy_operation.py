"""log_softmax as an operation, with a simple oracle and a generous bound: what a file of ``softcheck/operations`` holds."""

import numpy as np
import torch

from oracles.formats import FLOAT32
from oracles.reference import Reference, RowClass, classify
from softcheck.operations.bounds import Bounds, depth
from softcheck.operations.operation import Operand, Operation
from softcheck.operations.rules import FINITE_WHERE_DUE, NAN_WHERE_DUE, ORDERED, WITHIN_BOUND, in_range


def answer(values, _fmt=None, _fully_masked="nan"):
    with np.errstate(all="ignore"):
        wide = values.astype(np.longdouble)
        below = wide - wide.max(axis=1, initial=-np.inf, keepdims=True)
        exact = below - np.log(np.exp(below).sum(axis=1, keepdims=True))
        exact[classify(values) != RowClass.ORDINARY] = np.nan
        high = exact.astype(np.float64)
        low = np.where(np.isfinite(high), exact - high, 0.0).astype(np.float64)
    error = np.where(np.isfinite(high), 2.0**-50, 0.0)
    return Reference(high, low, np.zeros(values.shape, np.int64), error, 0.0, settled=True)


def bounds(values, exact, answers, model):
    """Errors of differences, of the sum and of its logarithm, each a few roundings in float32; then the last rounding."""
    absolute = FLOAT32.unit_roundoff * (4 * np.abs(answers) + depth(values.shape[1], model.lanes) + 16)
    rounding = np.where(np.isfinite(answers), 0.5, 0.0)
    return Bounds(absolute / exact.ulp + 2 * rounding, rounding, model.rounds_result, np.full(len(values), np.inf))


LOG_SOFTMAX = Operation(
    name="log_softmax",
    operands=(Operand("x", ("rows", "columns")),),
    outputs=(Operand("y", ("rows", "columns")),),
    families=("normal", "padding", "special", "finfo-min", "shifted", "ties", "one-column", "empty"),
    relations=("shifts", "permutations", "appended_masks"),
    answer=answer,
    prove=lambda values, _fmt, _masked: answer(values),
    bounds=bounds,
    rules=(WITHIN_BOUND, NAN_WHERE_DUE, FINITE_WHERE_DUE, in_range(-np.inf, 0.0), ORDERED),
    yardstick=lambda x: torch.log_softmax(x, dim=-1),
)
