"""The spread of errors: shares of elements by ULP error, a table for a dtype."""

import math
from collections.abc import Mapping, Sequence

from softcheck.report import content, figures
from softcheck.report.content import one_line
from softcheck.report.model import Bin, Report, VariantResult

_ROOM = 3
"""Octaves of errors that the table shows beyond those of the kernels without findings; larger errors share one column."""

_LEAST_SHARE = 1e-6
"""The share of elements at which a bar is empty: bars are logarithmic."""


def histograms(report: Report) -> Mapping[str, object]:
    """Shares of elements by ULP error, a row for each variant, by dtype."""
    groups = []
    for dtype, every in content.by_dtype(report).items():
        if results := [result for result in every if result.histogram]:
            groups.append({"dtype": dtype} | _histograms(results))
    return {"groups": groups} if groups else {}


def _histograms(results: Sequence[VariantResult]) -> dict[str, object]:
    right = [result for result in results if not result.findings] or results
    last = max(_octave(result.histogram[-1].below) for result in right) + _ROOM
    last = min(last, max(_octave(result.histogram[-1].below) for result in results))
    edges = range(min(_octave(result.histogram[0].below) for result in results), last + 2)
    rows = []
    for result in results:
        shares, bound = _shares(result.histogram, last), _largest_bound(result)
        cells = [(f"{share:.3g}", _bar(share)) for share in (shares.get(k, 0.0) for k in edges)]
        rows.append((one_line(result.name), figures.figure(bound), cells))
    # An upper edge of 2^k ULP, where 0.5 ULP is as far off as a correctly rounded result may be.
    heading = ["variant", "largest bound", *(f"< {2.0**k:.4g}" if k <= last else "more" for k in edges)]
    return {"heading": heading, "rows": rows}


def _bar(share: float) -> str:
    """The length of a share's bar, from 0 to 1."""
    return f"{max(0.0, 1 - math.log(share) / math.log(_LEAST_SHARE)):.3f}" if share else "0"


def _largest_bound(result: VariantResult) -> float | None:
    """The largest error in ULPs that the contract allows on any element judged in a case; None where no run kept it."""
    bounds = [peak.bound for peak in result.error_by_distance if math.isfinite(peak.bound) and peak.bound > 0]
    return max(bounds, default=None)


def _shares(bins: Sequence[Bin], last: int) -> dict[int, float]:
    """Shares of elements by the octave in which their errors end; all beyond ``last`` count as the octave after it."""
    total = sum(b.elements for b in bins)
    found: dict[int, float] = {}
    for b in bins:
        octave = min(_octave(b.below), last + 1)
        found[octave] = found.get(octave, 0.0) + b.elements / total
    return found


def _octave(edge: float) -> int:
    return round(math.log2(edge))
