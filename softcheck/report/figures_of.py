"""Draws a row's figures from a measurement."""

from collections.abc import Mapping

import msgspec

from softcheck.judge.histogram import percentile
from softcheck.judge.measurement import Extreme, Measurement
from softcheck.report.bins import octaves
from softcheck.report.model import VariantResult


def with_figures(result: VariantResult, m: Measurement) -> VariantResult:
    """The row with every figure of a measurement. A figure that was not measured is None, never 0."""
    judged = m.elements > 0
    return msgspec.structs.replace(
        result,
        elements=m.elements,
        max_ulp=None if m.max_ulp is None else m.max_ulp.value,
        mean_ulp=m.ulp_sum / m.elements if judged else None,
        histogram=octaves(m.histogram),
        p999_ulp=percentile_of(m.histogram, m.max_ulp),
        max_ulp_ftz=m.max_ulp_ftz,
        max_bound_share=None if m.max_bound_share is None else m.max_bound_share.value,
        max_standard_share=m.max_standard_share,
        flushed=m.flushed if judged else None,
        max_sum_deviation=m.max_sum_deviation,
        sum_violations=None if m.max_sum_deviation is None else m.sum_violations,
        special_mismatches=m.special_mismatches if m.special_rows else None,
        rejudged_rows=m.rejudged_rows if judged else None,
        max_abs_difference_to_torch=m.max_abs_difference_to_torch,
    )


def percentile_of(histogram: Mapping[int, int], worst: Extreme | None) -> float | None:
    """The 99.9th percentile of the ULP errors, at most the maximum.

    A bin's upper edge may lie above the maximum, which the percentile can't exceed.
    """
    found = percentile(histogram, 0.999)
    return None if found is None or worst is None else min(found, worst.value)
