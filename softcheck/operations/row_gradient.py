"""Gradients of operations with one answer for each row: dx = g (p - e), p the softmax and e what the operation subtracts.

Derived in docs/bounds.md, section 24. Errors are in ulp(|g| (p + e)), since the difference cancels where p is near 1.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from oracles import ball
from oracles.formats import Format, Values
from oracles.reference import Reference
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.bounds import LARGEST_EXPONENT
from softcheck.operations.gradient import (
    ROUNDINGS,
    Gradient,
    GradientErrors,
    compared,
    computed_in,
    in_units,
    output_errors,
)
from softcheck.operations.log_softmax import LOG_SOFTMAX
from softcheck.operations.ulp import Flags

if TYPE_CHECKING:
    import torch

Subtracted = Callable[[Values], tuple[Values, Flags]]
"""Returns what is subtracted from the softmax of values, [rows, columns], and the rows that count, bool [rows, 1]."""


def gradient_of_rows(subtracted: Subtracted, scale: str, *, is_rounded: bool = False) -> Gradient:
    """Judges the gradients of an operation that subtracts this; ``scale`` are words for the unit's scale.

    ``is_rounded`` says that what is subtracted may be rounded to the inputs' format first, as a graph of single operations does.
    """

    def errors(
        found: Values, grads: Values, logits: Values, _answer: Reference, fmt: Format, arithmetic: Arithmetic
    ) -> GradientErrors:
        less, counts = subtracted(logits)
        of_rows = np.where(counts, grads, 0.0)

        def formula(p: Sequence[Fraction], g: Sequence[Fraction]) -> list[Fraction]:
            # The first holds the row's own gradient, the others what is subtracted.
            return [g[0] * (one - other) for one, other in zip(p, g[1:], strict=True)]

        exact, differences = compared(found, np.hstack([of_rows, less]), ball.softmax(logits), formula)
        logarithms = LOG_SOFTMAX.prove(logits, fmt, "nan")
        p = np.exp(logarithms.values)
        _, narrow, _ = computed_in(arithmetic, fmt)
        each = ROUNDINGS * narrow.unit_roundoff
        # A backward takes e^y of log-softmax rounded to the format, or computes the softmax again, which is off by less.
        of_output = output_errors(LOG_SOFTMAX.bounds, logits, logarithms, fmt, arithmetic, LOG_SOFTMAX.scale)
        off = p * np.expm1(np.minimum(of_output, LARGEST_EXPONENT)) + each * p
        size = np.abs(of_rows) * (p + less)
        allowed = np.abs(of_rows) * off + each * size + ROUNDINGS * computed_in(arithmetic, fmt)[0].least_normal
        if is_rounded:
            allowed = allowed + 4 * fmt.unit_roundoff * size
        return in_units(exact, differences, allowed, size, logits, fmt)

    def size(p: "torch.Tensor", g: "torch.Tensor") -> "torch.Tensor":
        return g.abs() * (p + 1)

    def second(p: "torch.Tensor", g: "torch.Tensor", w: "torch.Tensor") -> "torch.Tensor":
        return 4 * g.abs() * p * (w.abs() + (p * w.abs()).sum(dim=1, keepdim=True))

    return Gradient(errors=errors, scale=scale, size=size, second=second)
