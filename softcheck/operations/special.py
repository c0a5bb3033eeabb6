"""Special values: elements with an ULP error, and elements that break the conventions for NaN, infinity and masks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Format, Values
from softcheck.operations.expression import largest, module_of, some
from softcheck.operations.ulp import Flags


@dataclass(frozen=True, slots=True)
class Specials:
    """Classes of rows and elements, shape [rows] or [rows, columns]."""

    ordinary: Flags
    """Rows whose answer follows no convention, [rows]."""
    masked: Flags
    """Elements whose logit is -inf and whose answer is exact and a number, such as 0: in ordinary rows, and in rows declared
    to give it."""
    comparable: Flags
    """Elements with a finite reference and a finite output: those that have an ULP error."""
    bounded: Flags
    """Comparable elements of ordinary rows that are not masked: those that have a bound."""
    nan_mismatch: Flags
    """NaN on one side only."""
    inf_mismatch: Flags
    """An infinite output where the answer is finite or the other infinity, or a finite one where it is infinite."""
    as_infinite: Flags
    """Infinite as due: the answer is this infinity, or rounds to it."""
    masked_wrong: Flags
    """A finite output other than the finite answer, such as 0 (or -0), for a masked element."""

    def without(self, rows: Flags) -> "Specials":
        """The same classes, but that nothing is said of some rows, bool [rows]."""
        kept = ~rows[:, None]
        return Specials(
            ordinary=self.ordinary & ~rows,
            masked=self.masked & kept,
            comparable=self.comparable & kept,
            bounded=self.bounded & kept,
            nan_mismatch=self.nan_mismatch & kept,
            inf_mismatch=self.inf_mismatch & kept,
            as_infinite=self.as_infinite & kept,
            masked_wrong=self.masked_wrong & kept,
        )

    @property
    def mismatched(self) -> NDArray[np.bool_]:
        """Special rows with any element that breaks the convention, [rows]."""
        broken = self.nan_mismatch | self.inf_mismatch | self.masked_wrong
        return broken.any(axis=1) & ~self.ordinary


_NEARLY = 1.0 - 2.0**-20
"""Share of the least value that rounds to infinity, beyond which an arithmetic's own error may lead there."""


def overflow(fmt: Format) -> float:
    """Returns the size of an answer from which on its output may be infinite."""
    return _NEARLY * (fmt.max * (1.0 + 0.5 * fmt.unit_roundoff))


def specials(
    logits: Values, output: Values, reference: Values, fmt: Format, *, per_row: bool = False, hides: bool = False
) -> Specials:
    """Sorts the elements of a matrix; all arrays are [rows, columns], the reference NaN where the answer is NaN.

    A NaN or a +inf anywhere in a row makes the whole answer NaN; a row of -inf alone is NaN or 0 as declared, which the
    reference already says.

    If the operation itself ``hides`` elements, these may be 0 in a row of NaN: no kernel need look there.

    With answers ``per_row``, output and reference have columns of their own, and the elements of a row of -inf alone are masked.
    Where such an answer is +inf, as for a row that holds a +inf, NaN is taken too: it is what the difference of two infinities gives. It is
    not where a row of -inf alone is declared to give +inf.
    """
    xp, top = module_of(output), largest(logits)
    expects_nan, is_nan, finite = xp.isnan(reference), xp.isnan(output), xp.isfinite(output)
    # A row of no columns is ordinary.
    is_hidden = xp.isneginf(top) & (logits.shape[1] > 0)
    is_lost = xp.isnan(top) | xp.isposinf(top)
    masked = (is_hidden if per_row else xp.isneginf(logits)) & ~expects_nan
    ordinary, comparable = ~(is_hidden | is_lost), finite & xp.isfinite(reference)
    nan_mismatch = is_nan != expects_nan
    if per_row:
        nan_mismatch &= ~(is_nan & xp.isposinf(reference) & ~is_hidden)
    if hides:
        nan_mismatch &= ~(is_lost & xp.isneginf(logits) & (output == 0))
    as_infinite = xp.zeros_like(finite)
    if some(~(finite | is_nan)):
        as_infinite = xp.isinf(output) & (abs(reference) >= overflow(fmt))
        as_infinite &= xp.signbit(output) == xp.signbit(reference)
    return Specials(
        ordinary=ordinary[:, 0],
        masked=masked,
        comparable=comparable,
        bounded=comparable & ~masked & ordinary,
        nan_mismatch=nan_mismatch,
        inf_mismatch=~(comparable | is_nan | expects_nan | as_infinite),
        as_infinite=as_infinite,
        masked_wrong=masked & comparable & (output != reference),
    )
