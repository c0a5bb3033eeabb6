"""Causal masks: a row of a case is a matrix of queries and keys, in which a query sees the keys up to its own position.

A row of n columns is given as [queries, keys], whose product is n. The query i sees the key j where j <= i with the alignment
``top-left``, and where j <= i + keys - queries with ``bottom-right``, as the last tokens of a longer context have it. Each query's answer
is that of its row with -inf in the hidden places, whatever stands there, NaN and infinities included.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from oracles.formats import Format, Values
from oracles.reference import FullyMasked, Reference
from softcheck.errors import UsageError, near_matches
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.block import reshaped
from softcheck.operations.bounds import Bounds, Model
from softcheck.operations.gradient import GradientErrors, reshaped_errors
from softcheck.operations.operation import Limits, Operation
from softcheck.operations.ulp import Flags, Scaled

if TYPE_CHECKING:
    import torch

MOST_QUERIES = 512
"""Queries of the highest matrix that is made of a row, each of which is a program or more of its own."""

ALIGNMENTS = TOP_LEFT, BOTTOM_RIGHT = "top-left", "bottom-right"


def queries_and_keys(columns: int) -> tuple[int, int]:
    """The matrix that is made of a row of so many columns: one of the three most nearly square, by turns higher and wider.

    It has at most ``MOST_QUERIES`` rows.
    """
    if not columns:
        return 1, 0
    divisors = [n for n in range(1, int(columns**0.5) + 1) if columns % n == 0]
    shapes = [shape for n in reversed(divisors) for shape in ((n, columns // n), (columns // n, n))]
    shapes = [shape for shape in shapes if shape[0] <= MOST_QUERIES]
    return shapes[columns % min(3, len(shapes))]


def visible(queries: int, keys: int, alignment: str) -> Flags:
    """The keys that each query sees, bool [queries, keys]."""
    shift = keys - queries if alignment == BOTTOM_RIGHT else 0
    found: Flags = np.arange(keys) <= np.arange(queries)[:, None] + shift
    return found


@dataclass(frozen=True, slots=True)
class _Causal:
    """An operation behind a causal mask, as the functions of an operation."""

    plain: Operation
    alignment: str
    queries: int

    def matrix(self, columns: int) -> tuple[int, int]:
        if not self.queries:
            return queries_and_keys(columns)
        return (self.queries, columns // self.queries) if columns and columns % self.queries == 0 else (1, columns)

    def logits(self, values: Values, _fmt: Format | None = None) -> Values:
        shape = self.matrix(values.shape[1])
        seen = np.tile(visible(*shape, self.alignment), (len(values), 1))
        return np.where(seen, np.ascontiguousarray(values).reshape(seen.shape), -np.inf)

    def answer(self, values: Values, fmt: Format, fully_masked: FullyMasked) -> Reference:
        return reshaped(self.plain.answer(self.logits(values), fmt, fully_masked), values.shape)

    def prove(self, values: Values, fmt: Format, fully_masked: FullyMasked) -> Reference:
        return reshaped(self.plain.prove(self.logits(values), fmt, fully_masked), values.shape)

    def decimal(self, row: Values, column: int, fmt: Format, fully_masked: FullyMasked) -> str:
        keys = self.matrix(len(row))[1]
        return self.plain.decimal(self.logits(row[None])[column // keys], column % keys, fmt, fully_masked)

    def bounds(self, values: Values, exact: Scaled, answers: Values, model: Model) -> Bounds:
        return self.plain.bounds(self.logits(values), exact, answers, model)

    def scale(self, values: Values, answers: Values, fmt: Format) -> Values:
        assert self.plain.scale is not None
        return self.plain.scale(self.logits(values), answers, fmt)

    def undefined(self, values: Values, fmt: Format) -> Flags:
        assert self.plain.undefined is not None
        lost = self.plain.undefined(self.logits(values), fmt).reshape(len(values), self.matrix(values.shape[1])[0])
        found: Flags = np.logical_or.reduce(lost, axis=1)
        return found

    def logits_of_tensor(self, x: "torch.Tensor") -> "torch.Tensor":
        import torch

        shape = self.matrix(x.shape[1])
        hidden = torch.from_numpy(~visible(*shape, self.alignment)).to(x.device)
        return x.reshape(len(x), *shape).masked_fill(hidden, float("-inf")).flatten(0, 1)

    def on_device(
        self, x: "torch.Tensor", fmt: Format, model: Model | None, *, strict: bool = False, scale: float = 1.0
    ) -> Limits:
        assert self.plain.on_device is not None
        assert scale == 1.0, "a masked operation has a scale of its own"
        logits = self.logits_of_tensor(x)
        found = self.plain.on_device(logits, fmt, model, strict=strict)._replace(logits=logits)
        if found.undefined is None:
            return found
        lost = found.undefined.view(len(x), -1)
        return found._replace(undefined=lost.any(dim=1, keepdim=True).expand_as(lost).flatten())

    def yardstick(self, x: "torch.Tensor") -> "torch.Tensor":
        return self.plain.yardstick(self.logits_of_tensor(x)).view(x.shape)

    def gradient_errors(
        self, found: Values, grads: Values, values: Values, _answer: Reference, fmt: Format, arithmetic: Arithmetic
    ) -> GradientErrors:
        """Each query's gradient by itself. Nothing flows to hidden elements, and a query that sees no key is left out."""
        assert self.plain.gradient is not None
        logits = self.logits(values)
        seen = np.tile(visible(*self.matrix(values.shape[1]), self.alignment), (len(values), 1))
        blind = np.isneginf(logits).all(axis=1, keepdims=True)
        logits = np.where(blind, 0.0, logits)
        found, grads = (np.where(blind, 0.0, part.reshape(logits.shape)) for part in (found, grads))
        answer = self.plain.prove(logits, fmt, "nan")
        errors = self.plain.gradient.errors(found, grads, logits, answer, fmt, arithmetic)
        of_hidden = np.where(found == 0, 0.0, np.inf)
        kept = GradientErrors(
            np.where(seen, errors.exact, 0.0),
            np.where(seen, errors.errors, of_hidden),
            np.where(seen, errors.limits, 0.0),
            errors.per_ulp,
        )
        return reshaped_errors(kept, values.shape)


def masked_by_position(plain: Operation, alignment: str, queries: float = 0) -> Operation:
    """Returns the operation with a causal mask, of rows that are matrices; ``plain`` itself without an alignment.

    ``queries`` is the number of queries of every matrix, 0 for one that the width gives. A row whose width it does not divide is one
    query. Raises UsageError for another alignment than ``ALIGNMENTS``, and for a number of queries that is none.
    """
    if alignment and alignment not in ALIGNMENTS:
        raise UsageError(f"causal is {alignment!r}; {near_matches(str(alignment), list(ALIGNMENTS))}")
    if queries < 0 or queries != int(queries):
        raise UsageError(f"queries is {queries:g}; expected a number of queries, or 0 for one that the width gives")
    if not alignment:
        return plain
    masked = _Causal(plain, alignment, int(queries))
    gradient = plain.gradient
    return replace(
        plain,
        parameters={**plain.parameters, "causal": alignment, "queries": queries},
        relations=(),
        matrix=masked.matrix,
        parts=masked.matrix,
        logits=masked.logits,
        answer=masked.answer,
        prove=masked.prove,
        decimal=masked.decimal,
        bounds=masked.bounds,
        scale=None if plain.scale is None else masked.scale,
        undefined=None if plain.undefined is None else masked.undefined,
        yardstick=masked.yardstick,
        arguments=None,
        gradient=None if gradient is None else replace(gradient, errors=masked.gradient_errors, second=None),
        on_device=None if plain.on_device is None else masked.on_device,
    )
