"""Rules that an output must keep: which elements or rows break one, how badly, and the words for a witness."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from oracles.formats import FORMATS, Bits, Format, Values, bits_hex
from softcheck.contract import FindingKind
from softcheck.operations.bounds import Bounds
from softcheck.operations.order import Disorder
from softcheck.operations.special import Specials
from softcheck.operations.ulp import Flags, Scaled


class JudgedRows(Protocol):
    """Some rows of an input, their output, and all figures of them; arrays are [rows, columns] unless said otherwise."""

    @property
    def first_row(self) -> int:
        """The number of the first row in the whole input."""
        ...

    @property
    def fmt(self) -> Format:
        """The format of input and output."""
        ...

    @property
    def input_bits(self) -> Bits:
        """The input's bit patterns."""
        ...

    @property
    def output_bits(self) -> Bits:
        """The output's bit patterns."""
        ...

    @property
    def logits(self) -> Values:
        """The input's values."""
        ...

    @property
    def output(self) -> Values:
        """The output's values."""
        ...

    @property
    def answer(self) -> Values:
        """The exact answer rounded to float64."""
        ...

    @property
    def exact(self) -> Scaled:
        """The exact answer in units of its ULP."""
        ...

    @property
    def specials(self) -> Specials:
        """The classes of rows and elements by their special values."""
        ...

    @property
    def errors(self) -> Values:
        """ULP errors; NaN for an element without one."""
        ...

    @property
    def bounds(self) -> Bounds:
        """The errors that the arithmetic allows."""
        ...

    @property
    def shares(self) -> Values:
        """Error divided by bound; -1 for an element without a bound."""
        ...

    @property
    def exceeding(self) -> Flags:
        """Elements whose error exceeds their bound."""
        ...

    @property
    def sum_violations(self) -> Flags:
        """Rows whose sum misses 1 by more than the arithmetic allows. Shape [rows]."""
        ...

    @property
    def disorder(self) -> Disorder | None:
        """Elements that stand below an element of a smaller logit; None if no row need be looked at."""
        ...

    @property
    def sum_deviations(self) -> Values:
        """The outputs' sum minus 1, NaN for a row without a sum. Shape [rows]."""
        ...


@dataclass(frozen=True, slots=True)
class ElementRule:
    """A rule that single elements break."""

    kind: FindingKind
    broken: Callable[[JudgedRows], Flags]
    """Returns the elements that break the rule."""
    badness: Callable[[JudgedRows], Values] | None
    """Returns how badly each element breaks it; None if any of them is as good a witness as another."""
    describe: Callable[[JudgedRows, int, int], str]
    """Says of the element in a row and column which value it has and which was expected."""
    has_share: bool = False
    """True if how badly is the error over its bound."""


@dataclass(frozen=True, slots=True)
class RowRule:
    """A rule that whole rows break; how badly is what they miss over what is allowed."""

    kind: FindingKind
    broken: Callable[[JudgedRows], Flags]
    """Returns the rows that break the rule, shape [rows]."""
    badness: Callable[[JudgedRows], Values]
    """Returns how badly each row breaks it, shape [rows]."""
    describe: Callable[[JudgedRows, int], str]
    """Says of a row by how much it misses which value."""


Rule = ElementRule | RowRule


def in_range(least: float, most: float) -> ElementRule:
    """The rule that finite outputs lie between two values.

    An output below the least breaks it, and one above the most by more than the element's bound: a correctly rounded result
    never exceeds 1, but an approximate division may give 1 + 2^-22 in float32 without breaking its own promise.
    """

    def outside(judged: JudgedRows) -> Values:
        with np.errstate(invalid="ignore"):
            return np.maximum(least - judged.output, judged.output - most)

    def broken(judged: JudgedRows) -> Flags:
        by = outside(judged)
        found: Flags = (by > 0) & judged.specials.comparable
        above = found & (judged.output > most) & judged.specials.bounded
        if above.any():
            found[above] = by[above] > (judged.bounds.elements * judged.exact.ulp)[above]
        return found

    def describe(judged: JudgedRows, row: int, column: int) -> str:
        error, exact = float(judged.errors[row, column]), number(float(judged.answer[row, column]))
        return (
            f"{_output(judged, row, column)}, expected a value in [{least:g}, {most:g}], here {exact}: {error:.6g} ULP"
        )

    return ElementRule(FindingKind.OUT_OF_RANGE, broken, outside, describe)


def _ulp(judged: JudgedRows, row: int, column: int) -> str:
    error, bound = float(judged.errors[row, column]), float(judged.bounds.elements[row, column])
    return f"{_output(judged, row, column)}, {_expected(judged, row, column)}: {error:.6g} ULP, bound {bound:.6g} ULP"


def _special(judged: JudgedRows, row: int, column: int) -> str:
    logits = judged.logits[row]
    if np.isnan(logits).any():
        reason = "the row holds a NaN"
    elif np.isposinf(logits).any():
        reason = "the row holds a +inf"
    elif np.isneginf(logits).all():
        reason = "every logit of the row is -inf"
    else:
        reason = "the row's answer is finite"
    return f"{_output(judged, row, column)}, {_expected(judged, row, column)}: {reason}"


def _masked(judged: JudgedRows, row: int, column: int) -> str:
    return f"{_output(judged, row, column)}, expected exactly 0 for a -inf logit"


def _disordered(judged: JudgedRows) -> Flags:
    found = judged.disorder
    return np.zeros(judged.logits.shape, dtype=np.bool_) if found is None else found.excess > 0


def _excess(judged: JudgedRows) -> Values:
    assert judged.disorder is not None
    return judged.disorder.excess


def _order(judged: JudgedRows, row: int, column: int) -> str:
    found = judged.disorder
    assert found is not None
    rival = int(found.rival[row, column])
    theirs = bits_hex(int(judged.output_bits[row, rival]), judged.fmt)
    return (
        f"{_output(judged, row, column)} although column {rival} has the smaller logit "
        f"{number(float(judged.logits[row, rival]))} and the larger output "
        f"{number(float(judged.output[row, rival]), theirs)}, by {found.excess[row, column]:.6g} more than both bounds allow"
    )


def _share_of_sum(judged: JudgedRows) -> Values:
    with np.errstate(over="ignore"):
        return np.abs(judged.sum_deviations) / judged.bounds.sums


def _sum(judged: JudgedRows, row: int) -> str:
    deviation, allowed = float(judged.sum_deviations[row]), float(judged.bounds.sums[row])
    return (
        f"the outputs' sum misses 1 by {deviation:+.6g} ({deviation.hex()}), expected at most {allowed:.6g} "
        f"({allowed.hex()}) for {judged.logits.shape[1]} columns of {judged.fmt.name}"
    )


WITHIN_BOUND = ElementRule(
    FindingKind.ULP_EXCEEDS_BOUND, lambda judged: judged.exceeding, lambda judged: judged.shares, _ulp, has_share=True
)
NAN_WHERE_DUE = ElementRule(FindingKind.NAN_MISMATCH, lambda judged: judged.specials.nan_mismatch, None, _special)
FINITE_WHERE_DUE = ElementRule(FindingKind.INF_MISMATCH, lambda judged: judged.specials.inf_mismatch, None, _special)
ZERO_WHERE_MASKED = ElementRule(
    FindingKind.MASKED_NOT_ZERO,
    lambda judged: judged.specials.masked_not_zero,
    lambda judged: np.abs(judged.output),
    _masked,
)
ORDERED = ElementRule(FindingKind.ORDER_VIOLATION, _disordered, _excess, _order)
"""A larger logit gets no smaller probability, beyond what the bounds allow."""
SUMS_TO_ONE = RowRule(FindingKind.SUM_VIOLATION, lambda judged: judged.sum_violations, _share_of_sum, _sum)


def place(judged: JudgedRows, row: int, column: int) -> str:
    """Names an element: its row in the whole input, its column, and the input's value there."""
    bits = bits_hex(int(judged.input_bits[row, column]), judged.fmt)
    return f"row {judged.first_row + row}, column {column}, input {number(float(judged.logits[row, column]), bits)}"


def number(value: float, bits: str | None = None) -> str:
    """A value in decimal and as a hexadecimal float, with its bits if it is of the judged format."""
    text = f"{value:.9g}" if bits is not None and len(bits) < FORMATS["float64"].hex_digits else f"{value:.17g}"
    # float.hex writes NaN and infinities as words, which the decimal already says.
    inside = [f"bits {bits}"] if bits is not None else []
    if np.isfinite(value):
        inside.append(value.hex())
    return f"{text} ({', '.join(inside)})" if inside else text


def _output(judged: JudgedRows, row: int, column: int) -> str:
    bits = bits_hex(int(judged.output_bits[row, column]), judged.fmt)
    return f"output {number(float(judged.output[row, column]), bits)}"


def _expected(judged: JudgedRows, row: int, column: int) -> str:
    return f"expected {number(float(judged.answer[row, column]))}"
