"""Merging of measurements, of parts of one input or of several inputs, into one."""

from collections.abc import Callable, Iterable
from functools import reduce

import msgspec

from softcheck.contract import FindingKind, Violation
from softcheck.judge import histogram, peaks
from softcheck.judge.measurement import Extreme, Measurement
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.ulp import LARGEST


def shifted(measurement: Measurement, rows: int) -> Measurement:
    """Returns the same figures with every witness's row moved down by ``rows``, in its message too."""
    return moved(measurement, lambda row: row + rows)


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


def _joined(a: Measurement, b: Measurement) -> Measurement:
    return Measurement(
        rows=a.rows + b.rows,
        columns=a.columns,
        elements=a.elements + b.elements,
        max_ulp=larger(a.max_ulp, b.max_ulp),
        ulp_sum=min(a.ulp_sum + b.ulp_sum, LARGEST),
        histogram=histogram.merge([a.histogram, b.histogram]),
        by_distance=peaks.merge(a.by_distance, b.by_distance),
        by_column=peaks.merge(a.by_column, b.by_column),
        max_ulp_ftz=_largest(a.max_ulp_ftz, b.max_ulp_ftz),
        max_bound_share=larger(a.max_bound_share, b.max_bound_share),
        max_standard_share=_largest(a.max_standard_share, b.max_standard_share),
        contract=a.contract or b.contract,
        fits=_both(a.fits, b.fits),
        flushed=a.flushed + b.flushed,
        max_sum_deviation=_largest(a.max_sum_deviation, b.max_sum_deviation),
        sum_violations=a.sum_violations + b.sum_violations,
        special_rows=a.special_rows + b.special_rows,
        fully_masked_rows=a.fully_masked_rows + b.fully_masked_rows,
        special_mismatches=a.special_mismatches + b.special_mismatches,
        rejudged_rows=a.rejudged_rows + b.rejudged_rows,
        unjudged_rows=a.unjudged_rows + b.unjudged_rows,
        violations=_violations(a.violations, b.violations),
        max_abs_difference_to_torch=_largest(a.max_abs_difference_to_torch, b.max_abs_difference_to_torch),
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
