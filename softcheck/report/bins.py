"""The judge's fine histogram of ULP errors as a reader wants it: a bin per octave."""

from collections.abc import Mapping

from softcheck.judge.histogram import BINS_PER_OCTAVE, upper_edge
from softcheck.report.model import Bin


def octaves(histogram: Mapping[int, int]) -> tuple[Bin, ...]:
    """The judge's bins joined to one per octave."""
    joined: dict[int, int] = {}
    for b, elements in sorted(histogram.items()):
        last = BINS_PER_OCTAVE * -(-b // BINS_PER_OCTAVE)
        joined[last] = joined.get(last, 0) + elements
    return tuple(Bin(below=upper_edge(b), elements=elements) for b, elements in joined.items())
