"""What two judges of the same output must agree on."""

from collections.abc import Mapping

import msgspec

from softcheck.contract import FindingKind
from softcheck.judge.measurement import Extreme, Measurement

TOLERANCE = 1e-6
"""In ULPs, and relative above 1."""

_UNSEEN = 2.0**-22
"""An element's error, in ULPs, that counts as none. The scan's exponential moves those of float16 by up to 2^-22.5. Far below the
peak the scans put every logit at one distance, so that r is up to 2^-27 ULP of a float32 for next to nothing, in double-float32
up to e^-120 / 2^-149, 2^-24.1 ULP; and float64 itself is off by up to 2^-26.5. Where all errors are such, so is their sum."""

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
    """Names of the figures that differ: counts at all, other figures by more than the tolerance, or in a sum what is unseen.

    One element in 10^4 may be in another bin of the histogram, since an error may lie at an edge. Violations agree where
    kinds and counts do; witnesses are not compared, since several elements may show the same.
    """
    found = [name for name in _EXACT if getattr(device, name) != getattr(host, name)]
    # Not the other way round: a NaN is no agreement.
    if not abs(device.ulp_sum - host.ulp_sum) <= max(TOLERANCE * max(1.0, host.ulp_sum), _UNSEEN * host.elements):
        found.append("ulp_sum")
    found += [name for name in _CLOSE if not _close(getattr(device, name), getattr(host, name))]
    for name in ("max_ulp", "max_bound_share"):
        ours, theirs = getattr(device, name), getattr(host, name)
        if not _close(ours and ours.value, theirs and theirs.value):
            found.append(name)
    if [(v.kind, v.count) for v in device.violations] != [(v.kind, v.count) for v in host.violations]:
        found.append("violations")
    if _moved(device.histogram, host.histogram) > max(1, host.elements // 10_000):
        found.append("histogram")
    return found


def without_order(measurement: Measurement) -> Measurement:
    """The same without order violations, which the device judge does not look for: it tells those of rows judged again."""
    kept = tuple(v for v in measurement.violations if v.kind is not FindingKind.ORDER_VIOLATION)
    return msgspec.structs.replace(measurement, violations=kept)


def differing(device: Measurement, host: Measurement) -> str:
    """The figures that differ, each with both values; "" where the judges agree."""
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


def _moved(a: Mapping[int, int], b: Mapping[int, int]) -> int:
    """Elements in other bins."""
    return sum(abs(a.get(k, 0) - b.get(k, 0)) for k in a.keys() | b.keys()) // 2
