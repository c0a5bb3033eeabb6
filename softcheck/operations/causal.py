"""Causal masks: a row of a case is a matrix of queries and keys, in which a query sees the keys up to its own position.

A row of n columns is given as [queries, keys], whose product is n. The query i sees the key j where j <= i with the alignment
``top-left``, and where j <= i + keys - queries with ``bottom-right``, as the last tokens of a longer context have it. Each query's answer
is that of its row with -inf in the hidden places, whatever stands there, NaN and infinities included.
"""

from dataclasses import replace

import numpy as np

from oracles.arrays import Array, largest, module_of
from oracles.formats import Format, Values
from oracles.reference import Reference
from softcheck.numbers.expression import Number
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.block import reshaped
from softcheck.operations.bounds import like
from softcheck.operations.gradient import GradientErrors, reshaped_errors
from softcheck.operations.operation import Operation
from softcheck.operations.options import Changed
from softcheck.operations.ulp import Flags

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


class _Causal(Changed):
    """An operation behind a causal mask, as the functions of an operation."""

    def __init__(self, plain: Operation, alignment: str, queries: int) -> None:
        super().__init__(plain)
        self.alignment, self.queries = alignment, queries

    def matrix(self, columns: int) -> tuple[int, int]:
        if not self.queries:
            return queries_and_keys(columns)
        return (self.queries, columns // self.queries) if columns and columns % self.queries == 0 else (1, columns)

    def logits(self, values: Array, _fmt: Format | None = None) -> Array:
        shape = self.matrix(values.shape[1])
        seen = like(values, visible(*shape, self.alignment))
        return module_of(values).where(seen, values.reshape(len(values), *shape), -np.inf).reshape(-1, shape[1])

    def change(self, x: Number) -> Number:
        return replace(x, value=self.logits(x.value))

    def concluded(self, answer: Reference, values: Values) -> Reference:
        return reshaped(answer, values.shape)

    def undefined(self, values: Array, fmt: Format) -> Array:
        lost = self._of.undefined(self.logits(values), fmt)
        return lost.reshape(len(values), self.matrix(values.shape[1])[0]).any(axis=1)

    def gradient_errors(
        self, found: Values, grads: Values, values: Values, _answer: Reference, fmt: Format, arithmetic: Arithmetic
    ) -> GradientErrors:
        """Each query's gradient by itself. Nothing flows to hidden elements, and a query that sees no key is left out."""
        logits = self.logits(values)
        seen = np.tile(visible(*self.matrix(values.shape[1]), self.alignment), (len(values), 1))
        blind: Array = np.isneginf(largest(logits))
        logits = np.where(blind, 0.0, logits)
        found, grads = (np.where(blind, 0.0, part.reshape(logits.shape)) for part in (found, grads))
        answer = self.inner.prove(logits, fmt, "nan")
        errors = self._of.gradient.errors(found, grads, logits, answer, fmt, arithmetic)
        kept = GradientErrors(
            np.where(seen, errors.exact, 0.0),
            np.where(seen, errors.errors, np.where(found == 0, 0.0, np.inf)),
            np.where(seen, errors.limits, 0.0),
            errors.per_ulp,
        )
        return reshaped_errors(kept, values.shape)


def masked_by_position(plain: Operation, alignment: str, queries: float = 0) -> Operation:
    """Returns the operation with a causal mask, of rows that are matrices; ``plain`` itself without an alignment.

    ``queries`` is the number of queries of every matrix, 0 for one that the width gives. A row whose width it does not divide is one
    query.
    """
    if not alignment:
        return plain
    masked, gradient = _Causal(plain, alignment, int(queries)), plain.gradient
    return masked.operation(
        {"causal": alignment, "queries": queries},
        relations=(),
        matrix=masked.matrix,
        parts=masked.matrix,
        logits=masked.logits,
        arguments=None,
        gradient=gradient and replace(gradient, errors=masked.gradient_errors, second=None),
    )
