"""Draws figures from a measurement: those of a row, its curves, and the histogram of ULP errors with a bin per octave."""

from collections.abc import Callable, Mapping

import msgspec

from softcheck.judge.histogram import BINS_PER_OCTAVE, percentile, upper_edge
from softcheck.judge.measurement import Measurement
from softcheck.judge.peaks import Peak, column_below, distance_below
from softcheck.report.model import Bin, ErrorPeak, PeerVerdict, VariantResult


def with_figures(result: VariantResult, m: Measurement) -> VariantResult:
    """The row with every figure of a measurement. A figure that was not measured is None, never 0."""
    judged = m.elements > 0
    p999 = percentile(m.histogram, 0.999)
    return msgspec.structs.replace(
        result,
        elements=m.elements,
        max_ulp=None if m.max_ulp is None else m.max_ulp.value,
        mean_ulp=m.ulp_sum / m.elements if judged else None,
        histogram=octaves(m.histogram),
        error_by_distance=_peaks(m.by_distance, distance_below),
        error_by_column=_peaks(m.by_column, column_below),
        # A bin's upper edge may lie above the maximum, which a percentile can't exceed.
        p999_ulp=None if p999 is None or m.max_ulp is None else min(p999, m.max_ulp.value),
        max_ulp_ftz=m.max_ulp_ftz,
        max_bound_share=None if m.max_bound_share is None else m.max_bound_share.value,
        max_standard_share=m.max_standard_share,
        flushed=m.flushed if judged else None,
        max_sum_deviation=m.max_sum_deviation,
        sum_violations=None if m.max_sum_deviation is None else m.sum_violations,
        special_mismatches=m.special_mismatches if m.special_rows else None,
        rejudged_rows=m.rejudged_rows if judged else None,
        max_abs_difference_to_torch=m.max_abs_difference_to_torch,
        peers=tuple(PeerVerdict(rule=name, cases=cases, refused=no) for name, (cases, no) in m.peers.items()),
    )


def octaves(histogram: Mapping[int, int]) -> tuple[Bin, ...]:
    """The judge's fine bins joined to one per octave."""
    joined: dict[int, int] = {}
    for b, elements in sorted(histogram.items()):
        last = BINS_PER_OCTAVE * -(-b // BINS_PER_OCTAVE)
        joined[last] = joined.get(last, 0) + elements
    return tuple(Bin(below=upper_edge(b), elements=elements) for b, elements in joined.items())


def _peaks(found: Mapping[int, Peak], below: Callable[[int], float | None]) -> tuple[ErrorPeak, ...]:
    return tuple(
        ErrorPeak(below=below(b), ulp=_short(ulp), bound=_short(bound), share=_short(share))
        for b, (ulp, bound, share) in found.items()
    )


def _short(value: float) -> float:
    """The number to six significant digits: more would make up a tenth of the JSON."""
    return float(f"{value:.6g}")
