"""What two judges of the same output must agree on."""

from collections.abc import Mapping

from softcheck.judge.measurement import Measurement

TOLERANCE = 1e-6
"""In ULPs, and relative above 1."""

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
_CLOSE = ("ulp_sum", "max_ulp_ftz", "max_sum_deviation")


def disagreements(device: Measurement, host: Measurement) -> list[str]:
    """Names of the figures that differ: counts at all, other figures by more than the tolerance.

    One element in 10^4 may be in another bin of the histogram, since an error may lie at an edge. Violations agree where
    kinds and counts do; witnesses are not compared, since several elements may show the same.
    """
    found = [name for name in _EXACT if getattr(device, name) != getattr(host, name)]
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


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= TOLERANCE * max(1.0, abs(b))


def _moved(a: Mapping[int, int], b: Mapping[int, int]) -> int:
    """Elements in other bins. The bins of 0 and of the least errors count as one: where r underflows, either is right."""
    bins = (a.keys() | b.keys()) - {0, 1}
    least = abs(a.get(0, 0) + a.get(1, 0) - b.get(0, 0) - b.get(1, 0))
    return (least + sum(abs(a.get(k, 0) - b.get(k, 0)) for k in bins)) // 2
