"""The finished parts of a domain, merged so that their order does not count and few of them are held. Imports no torch."""

from collections.abc import Iterator

import msgspec

from softcheck.judge.measurement import Measurement
from softcheck.judge.merge import merge


class FinishedRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The measurement of 2^level parts in a row, the first of which is part ``index`` * 2^level."""

    level: int
    index: int
    measurement: Measurement


class FinishedParts:
    """The measured parts of a domain of ``count`` parts.

    Two neighbours whose first is even become one block of the next level, and so on. Sums of floats are thus always added in
    the same tree, whichever part is finished first, and finished ranges take a few blocks each. A part in which a call gave no
    output is kept on its own, since how many such parts there are decides if the variant is given up.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._blocks: dict[tuple[int, int], Measurement] = {}

    def add(self, block: FinishedRange) -> None:
        """Adds a finished part, which is a block of level 0, or a merged block."""
        level, index, measurement = block.level, block.index, block.measurement
        while _may_merge(measurement):
            other = self._blocks.get((level, index ^ 1))
            if other is None or not _may_merge(other):
                break
            del self._blocks[level, index ^ 1]
            measurement = merge([measurement, other] if index % 2 == 0 else [other, measurement])
            level, index = level + 1, index // 2
        self._blocks[level, index] = measurement

    def __contains__(self, part: int) -> bool:
        return any((level, part >> level) in self._blocks for level in range(self.count.bit_length() + 1))

    def missing(self) -> Iterator[int]:
        """The parts that are not finished, in order."""
        return (part for part in range(self.count) if part not in self)

    @property
    def blocks(self) -> list[FinishedRange]:
        """The blocks, in the order of their parts."""
        found = [FinishedRange(level, index, measurement) for (level, index), measurement in self._blocks.items()]
        return sorted(found, key=lambda block: block.index << block.level)

    @property
    def rows(self) -> int:
        """Rows of all finished parts."""
        return sum(measurement.rows for measurement in self._blocks.values())


def _may_merge(measurement: Measurement) -> bool:
    return all(violation.row is not None for violation in measurement.violations)
