"""Classes and figures of elements and rows: special values, what the reference's own uncertainty leaves open, order, and row sums."""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from oracles.arrays import largest, module_of
from oracles.formats import Format, Values
from softcheck.operations.bounds import Bounds, some
from softcheck.operations.ulp import LARGEST, Flags, Scaled, least_quantum


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
        kept = {each.name: getattr(self, each.name) & ~rows[:, None] for each in fields(self)}
        return replace(self, **{**kept, "ordinary": self.ordinary & ~rows})

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


_ARITHMETIC = 2.0**-40
"""Relative error of the bounds as float64 computes them, generously."""

_VISIBLE = 2.0**-10
"""Relative and absolute ULP error that shows nowhere, since ULP figures are printed with three decimals."""

_COUNTED = 2.0**-20
"""ULPs. For a smaller error, neither the histogram's bin nor any printed figure depends on whether the error is
doubled."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Elements whose r may lie on the other side of a power of two than the reference's value; all [rows, columns]."""

    below: Flags
    """r may be less than the power of two under it, where the ULP is half as large."""
    above: Flags
    """r may reach the power of two above it, where the ULP is twice as large."""
    flushed: Flags
    """r may be on the other side of 2^emin, or of half the least subnormal, which decides whether a zero there is
    flushed."""

    @property
    def other_ulp(self) -> Flags:
        """Elements whose ULP may differ from the reference's."""
        return self.below | self.above


def sides(logits: Values, exact: Scaled) -> Sides:
    """Returns the sides that the reference's interval leaves open.

    Maxima whose side every oracle guarantees are excepted.
    """
    if exact.settled:
        nowhere = np.zeros(exact.high.shape, dtype=np.bool_)
        return Sides(nowhere, nowhere, nowhere)
    floor, slack = 2.0 ** (exact.fmt.precision - 1), exact.uncertainty
    with np.errstate(invalid="ignore"):
        from_floor = (exact.high - floor) + exact.low
        subnormal_ulp = exact.quantum == least_quantum(exact.fmt)
        below = (from_floor < slack) & ~subnormal_ulp
        if exact.of_scale is not None:
            below &= ~exact.of_scale
        above = from_floor + slack >= floor
        flushed = subnormal_ulp & (slack > 0)
        if flushed.any():
            flushed &= (np.abs(from_floor) <= slack) | (np.abs((exact.high - 0.5) + exact.low) <= slack)
    rows = np.flatnonzero((below | above | flushed).any(axis=1))
    # Only probabilities have a maximum of 1/c.
    if len(rows) and exact.of_scale is None:
        unknown = ~_known(logits[rows], exact, rows)
        for flags in (below, above, flushed):
            flags[rows] &= unknown
    return Sides(below, above, flushed)


def _known(logits: Values, exact: Scaled, rows: NDArray[np.int64]) -> Flags:
    """Maxima with c copies, c a power of two, whose r lies next to 1/c: ``Reference`` has them on the right side."""
    is_peak = logits == logits.max(axis=1, keepdims=True)
    copies = is_peak.sum(axis=1, keepdims=True)
    power_of_two = (copies & (copies - 1)) == 0
    next_to_it = np.abs(exact.high[rows] * exact.ulp[rows] * copies - 1) < 0.25
    known: Flags = is_peak & power_of_two & next_to_it
    return known


def doubtful_verdicts(errors: Values, bounds: Bounds, exact: Scaled, sides: Sides) -> Flags:
    """Elements whose error may lie on the other side of its bound, [rows, columns].

    Near a power of two the half ULP of rounding that the bound holds may be half or twice as large.
    """
    with np.errstate(invalid="ignore"):
        margin = exact.uncertainty + _ARITHMETIC * bounds.elements
        gap = errors - bounds.elements
        doubtful = np.abs(gap) <= margin
        if bounds.rounds_result:
            wide = sides.above & (gap > 0) & (gap <= margin + bounds.rounding)
            narrow = sides.below & (gap <= 0) & (gap > -margin - 0.5 * bounds.rounding)
            doubtful |= wide | narrow
    return doubtful


def doubtful_figures(errors: Values, output: Values, exact: Scaled, sides: Sides) -> Flags:
    """Elements that may count for another ULP error, or as flushed or not, [rows, columns].

    On the other side of a power of two the same error is half or twice as many ULPs. Elements without an error, NaN, are
    in no doubt.
    """
    with np.errstate(invalid="ignore"):
        doubtful = np.isfinite(errors) & (exact.uncertainty > _VISIBLE * np.maximum(1.0, errors))
        doubtful |= sides.other_ulp & (errors > _COUNTED)
    doubtful |= sides.flushed & (output == 0)
    return doubtful


def doubtful_sums(deviations: Values, bounds: Bounds, exact: Scaled, sides: Sides) -> NDArray[np.bool_]:
    """Rows whose sum may lie on the other side of its allowance, [rows]; NaN deviations are in no doubt."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(np.abs(deviations) - bounds.sums)
        doubtful = gap <= _ARITHMETIC * bounds.sums
        if sides.other_ulp.any():
            doubtful |= gap <= (sides.other_ulp * bounds.rounding * exact.ulp).sum(axis=1)
    return doubtful


@dataclass(frozen=True, slots=True)
class Disorder:
    """Elements that stand below an element of a smaller logit. All of shape [rows, columns]."""

    excess: Values
    """y_j - y_i less the two bounds' sum, for the worst j with x_j < x_i; -inf if there is no such j."""
    rival: NDArray[np.int64]
    """Column of that j; meaningless where the excess is -inf."""


def disorder(logits: Values, output: Values, bound: Values, taking_part: NDArray[np.bool_]) -> Disorder:
    """Compares each element with all elements of smaller logits in its row, in O(n log n).

    ``bound`` holds absolute error bounds. Where x_i > x_j, exact softmax has r_i >= r_j, and so
    y_j - y_i = (y_j - r_j) - (r_i - r_j) - (y_i - r_i) <= b_j + b_i as long as both elements keep their bounds: a row in
    which every element keeps its bound shows no excess above 0, and needs no call. Elements that don't take part
    (masked, or not finite in the output) are neither compared nor compared with.
    """
    order = np.argsort(logits, axis=1, kind="stable")
    logits = np.take_along_axis(logits, order, axis=1)
    output = np.take_along_axis(output, order, axis=1)
    bound = np.take_along_axis(bound, order, axis=1)
    taking_part = np.take_along_axis(taking_part, order, axis=1)

    lowest = np.where(taking_part, output - bound, -np.inf)
    highest = np.where(taking_part, output + bound, np.inf)
    columns = np.broadcast_to(np.arange(logits.shape[1]), logits.shape)
    new_logit = np.ones(logits.shape, dtype=np.bool_)
    new_logit[:, 1:] = logits[:, 1:] > logits[:, :-1]
    group_start = np.maximum.accumulate(np.where(new_logit, columns, 0), axis=1)

    best = np.maximum.accumulate(lowest, axis=1)
    improves = np.ones(logits.shape, dtype=np.bool_)
    improves[:, 1:] = lowest[:, 1:] > best[:, :-1]
    holder = np.maximum.accumulate(np.where(improves, columns, 0), axis=1)

    before = np.maximum(group_start - 1, 0)
    smaller = np.where(group_start > 0, np.take_along_axis(best, before, axis=1), -np.inf)
    excess = np.where(taking_part & (smaller > -np.inf), smaller - highest, -np.inf)
    rival = np.take_along_axis(order, np.take_along_axis(holder, before, axis=1), axis=1)

    unsorted_excess, unsorted_rival = np.empty_like(excess), np.empty_like(rival)
    np.put_along_axis(unsorted_excess, order, excess, axis=1)
    np.put_along_axis(unsorted_rival, order, rival, axis=1)
    return Disorder(unsorted_excess, unsorted_rival)


def sum_deviation(output: Values) -> Values:
    """Sums minus 1 of the rows of a [rows, columns] matrix of finite values, shape [rows]; rows of no columns give -1.

    Two error-free extractions (Rump, Ogita and Oishi, "Accurate floating-point summation part I", SIAM J. Sci. Comput.
    2008, algorithm 3.2): with sigma a power of two >= 2 n max|y|, q = (sigma + y) - sigma and y - q are exact, and the q
    of a row, multiples of 2^-53 sigma whose sum stays below sigma, add up without rounding. For values of at most 1 the
    second round leaves a rest of at most 2^-101 n^3 in all, so that rounding in it adds less than 2^-70 at 2^25 columns;
    else only the last additions round, a relative error of 2^-52 of the result. Sums beyond float64 are clipped.
    """
    if output.shape[1] == 0:
        return np.full(output.shape[0], -1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        sigma = _power_above(2.0 * output.shape[1] * np.abs(output).max(axis=1, keepdims=True))
        first, rest = _extract(output, sigma)
        second, rest = _extract(rest, _power_above(sigma * (output.shape[1] * 2.0**-51)))
        total = (first - 1.0) + (second + rest.sum(axis=1))
    # A sigma that overflowed leaves NaN; such a row holds values near the largest float64.
    return np.clip(np.where(np.isnan(total), LARGEST, total), -LARGEST, LARGEST)


def _power_above(values: Values) -> Values:
    """A power of two >= each value, at least 2^-900."""
    _, exponent = np.frexp(np.maximum(values, 2.0**-900))
    return np.ldexp(np.ones_like(values), exponent)


def _extract(values: Values, sigma: Values) -> tuple[Values, Values]:
    """The exact row sums of the leading parts of values, and the rest of each value."""
    leading = (sigma + values) - sigma
    return leading.sum(axis=1), values - leading
