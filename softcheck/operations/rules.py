"""Rules that an output must keep: which elements or rows break one, how badly, and the words for a witness."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from oracles.formats import FORMATS, Values, bits_hex
from softcheck.contract import FindingKind
from softcheck.facts import Reason
from softcheck.operations.ulp import Flags

if TYPE_CHECKING:
    from softcheck.operations.block import Block


@dataclass(frozen=True, slots=True)
class ElementRule:
    """A rule that single elements break."""

    kind: FindingKind
    broken: Callable[["Block"], Flags]
    """Returns the elements that break the rule."""
    badness: Callable[["Block"], Values] | None
    """Returns how badly each element breaks it; None if any of them is as good a witness as another."""
    describe: Callable[["Block", int, int], str]
    """Says of the element in a row and column which value it has and which was expected."""
    has_share: bool = False
    """True if how badly is the error over its bound."""
    range: tuple[float, float] | None = None
    """The values between which finite outputs lie, if that is the rule."""


@dataclass(frozen=True, slots=True)
class RowRule:
    """A rule that whole rows break; how badly is what they miss over what is allowed."""

    kind: FindingKind
    broken: Callable[["Block"], Flags]
    """Returns the rows that break the rule, shape [rows]."""
    badness: Callable[["Block"], Values]
    """Returns how badly each row breaks it, shape [rows]."""
    describe: Callable[["Block", int], str]
    """Says of a row by how much it misses which value."""


Rule = ElementRule | RowRule


def in_range(least: float, most: float) -> ElementRule:
    """The rule that finite outputs lie between two values.

    An output below the least breaks it, and one above the most by more than the element's bound: a correctly rounded result
    never exceeds 1, but an approximate division may give 1 + 2^-22 in float32 without breaking its own promise.
    """

    def outside(judged: "Block") -> Values:
        with np.errstate(invalid="ignore"):
            return np.maximum(least - judged.output, judged.output - most)

    def broken(judged: "Block") -> Flags:
        by = outside(judged)
        found: Flags = (by > 0) & judged.specials.comparable
        above = found & (judged.output > most) & judged.specials.bounded
        if above.any():
            found[above] = by[above] > (judged.bounds.elements * judged.exact.ulp)[above]
        return found

    def describe(judged: "Block", row: int, column: int) -> str:
        error, exact = float(judged.errors[row, column]), number(float(judged.answer[row, column]))
        return (
            f"{_output(judged, row, column)}, expected a value in [{least:g}, {most:g}], here {exact}: {error:.6g} ULP"
        )

    return ElementRule(FindingKind.OUT_OF_RANGE, broken, outside, describe, range=(least, most))


def _ulp(judged: "Block", row: int, column: int) -> str:
    error, bound = float(judged.errors[row, column]), float(judged.bounds.elements[row, column])
    return f"{_output(judged, row, column)}, {_expected(judged, row, column)}: {error:.6g} ULP, bound {bound:.6g} ULP"


_REASONS: dict[Reason, str] = {
    "nan": "the row holds a NaN",
    "inf": "the row holds a +inf",
    "hidden_row": "every logit of the row is -inf",
    "hidden": "its logit is -inf",
    "finite": "the row's answer is finite",
}


def reason(judged: "Block", row: int, column: int) -> Reason:
    """What the logits of an element's row decide of its answer."""
    logits = judged.logits[row]
    if np.isnan(logits).any():
        return "nan"
    if np.isposinf(logits).any():
        return "inf"
    if np.isneginf(logits).all():
        return "hidden_row"
    is_hidden = np.isneginf(judged.answer[row, column]) and np.isneginf(logits[column])
    return "hidden" if is_hidden else "finite"


def _special(judged: "Block", row: int, column: int) -> str:
    return f"{_output(judged, row, column)}, {_expected(judged, row, column)}: {_REASONS[reason(judged, row, column)]}"


def _masked(judged: "Block", row: int, column: int) -> str:
    return f"{_output(judged, row, column)}, expected exactly 0 for a -inf logit"


def _disordered(judged: "Block") -> Flags:
    found = judged.disorder
    return np.zeros(judged.logits.shape, dtype=np.bool_) if found is None else found.excess > 0


def _excess(judged: "Block") -> Values:
    assert judged.disorder is not None
    return judged.disorder.excess


def _order(judged: "Block", row: int, column: int) -> str:
    found = judged.disorder
    assert found is not None
    rival = int(found.rival[row, column])
    theirs = bits_hex(int(judged.output_bits[row, rival]), judged.fmt)
    return (
        f"{_output(judged, row, column)} although column {rival} has the smaller logit "
        f"{number(float(judged.logits[row, rival]))} and the larger output "
        f"{number(float(judged.output[row, rival]), theirs)}, by {found.excess[row, column]:.6g} more than both bounds allow"
    )


def _share_of_sum(judged: "Block") -> Values:
    with np.errstate(over="ignore"):
        return np.abs(judged.sum_deviations) / judged.bounds.sums


def sum_words(judged: "Block", row: int, summed: str = "the outputs' sum") -> str:
    """Says of a row by how much what is summed misses 1."""
    deviation, allowed = float(judged.sum_deviations[row]), float(judged.bounds.sums[row])
    return (
        f"{summed} misses 1 by {deviation:+.6g} ({deviation.hex()}), expected at most {allowed:.6g} "
        f"({allowed.hex()}) for {judged.logits.shape[1]} columns of {judged.fmt.name}"
    )


WITHIN_BOUND = ElementRule(
    FindingKind.ULP_EXCEEDS_BOUND, lambda judged: judged.exceeding, lambda judged: judged.shares, _ulp, has_share=True
)
NAN_WHERE_DUE = ElementRule(FindingKind.NAN_MISMATCH, lambda judged: judged.specials.nan_mismatch, None, _special)
FINITE_WHERE_DUE = ElementRule(FindingKind.INF_MISMATCH, lambda judged: judged.specials.inf_mismatch, None, _special)
NUMBERS = (WITHIN_BOUND, NAN_WHERE_DUE, FINITE_WHERE_DUE)
"""Rules of every operation."""
ZERO_WHERE_MASKED = ElementRule(
    FindingKind.MASKED_NOT_ZERO,
    lambda judged: judged.specials.masked_wrong,
    lambda judged: np.abs(judged.output),
    _masked,
)
ORDERED = ElementRule(FindingKind.ORDER_VIOLATION, _disordered, _excess, _order)
"""A larger logit gets no smaller probability, beyond what the bounds allow."""


def _no_keys(judged: "Block", row: int, column: int) -> str:
    return f"output {number(float(judged.output[row, column]))}, expected exactly 0: the query sees no key"


NOTHING_SEEN = replace(ZERO_WHERE_MASKED, describe=_no_keys)
"""A query that sees no key gives 0 where that is declared."""


def _outside(judged: "Block") -> Values:
    """By how much outputs lie outside of the values of their query's keys, beyond what rounding allows; at most 0 inside."""
    assert judged.operation.range_of is not None
    least, most = judged.operation.range_of(judged.values, judged.fmt, judged.model)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.maximum(least - judged.output, judged.output - most)


def _beyond_values(judged: "Block", row: int, column: int) -> str:
    by, output = float(_outside(judged)[row, column]), number(float(judged.output[row, column]))
    return f"output {output} lies outside of all values that its query sees, by {by:.6g} more than rounding allows"


WITHIN_ITS_VALUES = ElementRule(
    FindingKind.OUT_OF_RANGE,
    lambda judged: (_outside(judged) > 0) & judged.specials.bounded,
    _outside,
    _beyond_values,
)
"""A mean of values lies among them (``Operation.range_of``)."""
SUMS_TO_ONE = RowRule(FindingKind.SUM_VIOLATION, lambda judged: judged.sum_violations, _share_of_sum, sum_words)
POWERS_SUM_TO_ONE = replace(SUMS_TO_ONE, describe=partial(sum_words, summed="the sum of e^y over the outputs y"))
"""The same of ``Operation.probabilities``, the exponentials of outputs that are logarithms."""


def place(judged: "Block", row: int, column: int) -> str:
    """Names an element: its row in the whole input, its column, and the input's value there. A row's one answer has its row alone."""
    if judged.operation.answers_rows:
        return row_place(judged, row)
    if not judged.operation.answers_elements:
        return f"{row_place(judged, row)}, {'column' if judged.operation.answers_logits else 'element'} {column}"
    bits = bits_hex(int(judged.input_bits[row, column]), judged.fmt)
    word = "input" if any(operand.name == "x" for operand in judged.operation.operands) else "logit"
    return f"{row_place(judged, row)}, column {column}, {word} {number(float(judged.logits[row, column]), bits)}"


def row_place(judged: "Block", row: int) -> str:
    """Names a row in the whole input, and the query if the row's answer has several."""
    query = f", query {row % judged.parts}" if judged.operation.parts is not None else ""
    return f"row {judged.row_of(row)}{query}"


def number(value: float, bits: str | None = None) -> str:
    """A value in decimal and as a hexadecimal float, with its bits if it is of the judged format."""
    text = f"{value:.9g}" if bits is not None and len(bits) < FORMATS["float64"].hex_digits else f"{value:.17g}"
    # float.hex writes NaN and infinities as words, which the decimal already says.
    inside = [f"bits {bits}"] if bits is not None else []
    if np.isfinite(value):
        inside.append(value.hex())
    return f"{text} ({', '.join(inside)})" if inside else text


def _output(judged: "Block", row: int, column: int) -> str:
    bits = bits_hex(int(judged.output_bits[row, column]), judged.fmt)
    return f"output {number(float(judged.output[row, column]), bits)}"


def _expected(judged: "Block", row: int, column: int) -> str:
    return f"expected {number(float(judged.answer[row, column]))}"
