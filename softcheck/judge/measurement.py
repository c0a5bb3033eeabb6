"""The judge's measurement of one variant on one case, a few numbers, small enough to send and to journal; and merging of measurements."""

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import msgspec

from softcheck.contract import FindingKind, Violation
from softcheck.judge import histogram
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.ulp import LARGEST


class Extreme(msgspec.Struct, frozen=True):
    """A largest value and the element that shows it."""

    value: float
    row: int
    column: int
    input_bits: str
    """Empty if the whole row has one answer."""
    output_bits: str


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one judged output. A figure that was not measured is None, never 0."""

    rows: int = 0
    columns: int = 0
    elements: int = 0
    """Elements with a finite reference and a finite output. Only these have an ULP error."""
    max_ulp: Extreme | None = None
    ulp_sum: float = 0.0
    """Sum of the ULP errors of these elements; divide by ``elements`` for the mean."""
    histogram: dict[int, int] = {}
    """Count of elements by bin of their ULP error; ``softcheck.judge.histogram`` defines the bins."""
    by_distance: dict[int, tuple[float, float, float]] = {}
    """Largest ULP error, largest bound in ULPs, and largest error over its own bound, of the elements that have a bound, by bin
    of max x - x_j, the distance from the row's largest logit; ``softcheck.judge.histogram`` defines the bins. Empty bins are absent. Measured where the numpy judge was asked for it, as for cases."""
    by_column: dict[int, tuple[float, float, float]] = {}
    """The same by bin of the column."""
    max_ulp_ftz: float | None = None
    """Largest ULP error in a format without subnormals, where 0 and 2^emin are one ULP apart; never above
    ``max_ulp``."""
    max_bound_share: Extreme | None = None
    """Largest error divided by the bound on it; above 1 breaks the contract."""
    max_standard_share: float | None = None
    """Largest error, or deviation of a sum from 1, over the standard contract's bound, if another arithmetic was judged
    by."""
    flushed: int = 0
    max_sum_deviation: float | None = None
    """Largest |sum - 1| over ordinary rows, summed without rounding error."""
    sum_violations: int = 0
    special_rows: int = 0
    """Rows whose answer follows a convention: NaN, +inf, or every logit -inf."""
    fully_masked_rows: int = 0
    """Special rows whose every logit is -inf."""
    special_mismatches: int = 0
    rejudged_rows: int = 0
    """Rows handed to the Arb oracle because the everyday oracle's uncertainty could change their verdict or figures."""
    violations: tuple[Violation, ...] = ()
    contract: Arithmetic | None = None
    """The arithmetic that was judged by, if it allows more than the standard contract."""
    fits: tuple[Arithmetic, ...] | None = None
    """Weaker arithmetics that explain every violation, if the bound is broken and no arithmetic was declared; else
    None."""
    unjudged_rows: int = 0
    """Rows of calls that gave no output."""
    skipped: str | None = None
    """The reason, in words, why the variant could not be run here at all; nothing is known of it then."""
    max_abs_difference_to_torch: float | None = None
    peers: dict[str, tuple[int, int]] = {}
    """Outputs that a usual rule judged, and those that it refused, by rule (``softcheck.judge.peers``); empty if nobody asked."""
    judged_in: str = "numpy"
    """The judge: ``numpy``, or ``float64`` for the judge on tensors."""


def unmeasured(shape: tuple[int, ...], violations: tuple[Violation, ...]) -> Measurement:
    """The measurement of a call that gave no output to judge: no figures, only broken promises."""
    return Measurement(rows=shape[0], columns=shape[1], unjudged_rows=shape[0], violations=violations)


def moved(measurement: Measurement, place: Callable[[int], int]) -> Measurement:
    """Returns the same figures with every witness's row in another place, in its message too."""
    return msgspec.structs.replace(
        measurement,
        max_ulp=_moved(measurement.max_ulp, place),
        max_bound_share=_moved(measurement.max_bound_share, place),
        violations=tuple(_violation_moved(v, place) for v in measurement.violations),
    )


def merge(parts: Iterable[Measurement]) -> Measurement:
    """Merges the figures of all parts: adds sums, and keeps the largest extreme and the first witness.

    The first witness gets the largest share. ``columns`` is the first part's. Raises TypeError if there are no parts.
    """
    return reduce(_joined, parts)


_ADDED = (
    *("rows", "elements", "flushed", "sum_violations", "special_rows", "fully_masked_rows", "special_mismatches"),
    *("rejudged_rows", "unjudged_rows"),
)
_LARGEST = ("max_ulp_ftz", "max_standard_share", "max_sum_deviation", "max_abs_difference_to_torch")


def _joined(a: Measurement, b: Measurement) -> Measurement:
    figures: dict[str, Any] = {name: getattr(a, name) + getattr(b, name) for name in _ADDED}
    figures |= {name: _largest(getattr(a, name), getattr(b, name)) for name in _LARGEST}
    return Measurement(
        **figures,
        columns=a.columns,
        max_ulp=larger(a.max_ulp, b.max_ulp),
        ulp_sum=min(a.ulp_sum + b.ulp_sum, LARGEST),
        histogram=histogram.merge([a.histogram, b.histogram]),
        by_distance=histogram.merge_peaks(a.by_distance, b.by_distance),
        by_column=histogram.merge_peaks(a.by_column, b.by_column),
        max_bound_share=larger(a.max_bound_share, b.max_bound_share),
        contract=a.contract or b.contract,
        fits=_both(a.fits, b.fits),
        violations=_violations(a.violations, b.violations),
        peers=_counts(a.peers, b.peers),
        judged_in=" and ".join(dict.fromkeys([*a.judged_in.split(" and "), *b.judged_in.split(" and ")])),
    )


def _counts(a: dict[str, tuple[int, int]], b: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    pairs = {name: (a.get(name, (0, 0)), b.get(name, (0, 0))) for name in sorted({*a, *b})}
    return {name: (first[0] + second[0], first[1] + second[1]) for name, (first, second) in pairs.items()}


def _both(a: tuple[Arithmetic, ...] | None, b: tuple[Arithmetic, ...] | None) -> tuple[Arithmetic, ...] | None:
    """Arithmetics that fit both parts. A part that breaks nothing has None, and leaves the other part's."""
    if a is None or b is None:
        return b if a is None else a
    return tuple(arithmetic for arithmetic in a if arithmetic in b)


def _violations(a: tuple[Violation, ...], b: tuple[Violation, ...]) -> tuple[Violation, ...]:
    first: dict[FindingKind, Violation] = {}
    for violation in (*a, *b):
        before = first.get(violation.kind)
        if before is None:
            first[violation.kind] = violation
            continue
        # The share decides whether a declared defect explains a finding.
        count, share = before.count + violation.count, _largest(before.share, violation.share)
        first[violation.kind] = msgspec.structs.replace(before, count=count, share=share)
    return tuple(first[kind] for kind in FindingKind if kind in first)


def _violation_moved(violation: Violation, place: Callable[[int], int]) -> Violation:
    if violation.row is None:
        return violation
    row = place(violation.row)
    # The judge begins a message with its witness's row.
    message = f"row {row}{violation.message.removeprefix(f'row {violation.row}')}"
    return msgspec.structs.replace(violation, row=row, message=message)


def _moved(extreme: Extreme | None, place: Callable[[int], int]) -> Extreme | None:
    return None if extreme is None else msgspec.structs.replace(extreme, row=place(extreme.row))


def larger(a: Extreme | None, b: Extreme | None) -> Extreme | None:
    """The larger of two extremes, the earlier one if both are equal."""
    if a is None or b is None:
        return a or b
    return b if b.value > a.value else a


def _largest(a: float | None, b: float | None) -> float | None:
    return max((v for v in (a, b) if v is not None), default=None)
