"""Comparison of two judges' measurements of the same output."""

from collections.abc import Mapping

import msgspec

from softcheck.contract import FindingKind
from softcheck.judge.measurement import Extreme, Measurement
from softcheck.operations.operation import CERTAIN

TOLERANCE = 2e-6
"""Absolute tolerance in ULPs, relative for figures above 1."""

_UNSEEN = 2.0**-19
"""Error of an element, in ULPs, that counts as none. float64's own error of a loss with options, which the host adds, is up to 2^-19.4. The scan's exponential moves errors of float16 by up to 2^-22.5.
Far below the peak the scans put every logit at one distance, so that r differs from next to nothing by up to 2^-27 ULP
of a float32, in double-float32 by up to e^-120 / 2^-149, 2^-24.1 ULP. float64 itself is off by up to 2^-26.5. If all
errors are this small, their sum may differ by as much per element."""

_EXACT = (
    "rows",
    "columns",
    "elements",
    "flushed",
    "sum_violations",
    "special_rows",
    "fully_masked_rows",
    "special_mismatches",
)
_CLOSE = ("max_ulp_ftz", "max_sum_deviation")


def disagreements(device: Measurement, host: Measurement) -> list[str]:
    """Names the figures that differ: counts at all, other figures by more than the tolerance.

    A sum of errors may also differ by ``_UNSEEN`` per element, and by ``CERTAIN`` per element of the rows that the host proved. Elements may be in the next bin of the histogram,
    since an error may lie at an edge: at one edge for every 10^4 elements, and one element in 100, since equal logits have equal errors.
    Violations agree if their kinds and counts do. Witnesses are not
    compared, since several elements may show the same violation.
    """
    found = [name for name in _EXACT if getattr(device, name) != getattr(host, name)]
    proved = host.rejudged_rows * host.columns
    allowed = max(TOLERANCE * max(1.0, host.ulp_sum), _UNSEEN * host.elements) + CERTAIN * proved
    # Not written the other way round: a NaN is no agreement.
    if not abs(device.ulp_sum - host.ulp_sum) <= allowed:
        found.append("ulp_sum")
    found += [name for name in _CLOSE if not _close(getattr(device, name), getattr(host, name))]
    for name in ("max_ulp", "max_bound_share"):
        ours, theirs = getattr(device, name), getattr(host, name)
        if not _close(ours and ours.value, theirs and theirs.value):
            found.append(name)
    if [(v.kind, v.count) for v in device.violations] != [(v.kind, v.count) for v in host.violations]:
        found.append("violations")
    edges, moved = _moves(device.histogram, host.histogram)
    if edges > max(1, host.elements // 10_000) or moved > max(1, host.elements // 100):
        found.append("histogram")
    return found


def without_order(measurement: Measurement) -> Measurement:
    """Returns the measurement without order violations.

    The device judge does not look for them, and reports only those of rows that are judged again.
    """
    kept = tuple(v for v in measurement.violations if v.kind is not FindingKind.ORDER_VIOLATION)
    return msgspec.structs.replace(measurement, violations=kept)


def differing(device: Measurement, host: Measurement) -> str:
    """The figures that differ, each with both values; "" if the judges agree."""
    told = []
    for name in disagreements(device, host):
        ours, theirs = getattr(device, name), getattr(host, name)
        if name == "histogram":
            moved = sorted(b for b in ours.keys() | theirs.keys() if ours.get(b) != theirs.get(b))[:3]
            ours, theirs = ({b: counts.get(b, 0) for b in moved} for counts in (ours, theirs))
        told.append(f"{name} {_shown(ours)} on the device, {_shown(theirs)} by numpy")
    return ", ".join(told)


def _shown(value: object) -> str:
    if isinstance(value, Extreme):
        return f"{value.value!r}"
    if isinstance(value, tuple):
        return "+".join(f"{v.count} {v.kind}" for v in value) or "none"
    return repr(value)


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= TOLERANCE * max(1.0, abs(b))


def _moves(a: Mapping[int, int], b: Mapping[int, int]) -> tuple[int, int]:
    """The edges between bins that elements crossed, counted for each bin that they went on, and the number of elements."""
    edges = elements = over = 0
    before = None
    for place in sorted(a.keys() | b.keys()):
        if before is not None and over:
            edges += place - before
            elements += abs(over)
        over += a.get(place, 0) - b.get(place, 0)
        before = place
    return (edges, elements) if over == 0 else (sum(a.values()) + sum(b.values()), abs(over))
