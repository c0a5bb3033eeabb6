"""The shapes that are timed: named sweeps, and shapes as a user types them. No torch."""

import re

from softcheck.errors import UsageError

Shape = tuple[int, int]

DEFAULT: Shape = (8192, 8192)
"""Several times the L2 of any current GPU in every dtype."""

SWEEPS: dict[str, tuple[Shape, ...]] = {
    "columns": tuple((4096, columns) for columns in range(256, 12673, 128)),
    "batch": tuple((2**k, 4096) for k in range(4, 17)),
    "vocabulary": tuple((2048, c) for c in (1000, 4096, 8192, 16384, 32000, 50257, 65536, 100352, 129280)),
    "heads": ((64, 1024), (64, 4096)),
    "small-batch": tuple((rows, columns) for columns in (1024, 32000, 129280) for rows in (1, 4, 16, 64)),
}
"""Rows and columns by sweep.

``columns`` is the tutorial's sweep. Vocabularies are sizes of language models, padded and not.
``heads`` are batch times heads and the keys of each, for attention.
"""

_SHAPE = re.compile(r"(\d{1,9})\s*[x\N{MULTIPLICATION SIGN}]\s*(\d{1,9})", re.ASCII)


def parse(text: str) -> tuple[Shape, ...]:
    """Shapes from ``4096x1024,1823x781``; raises UsageError for anything else, and for a size of 0."""
    shapes = []
    for part in text.split(","):
        match = _SHAPE.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"{part.strip()!r} is no shape; expected ROWSxCOLUMNS, such as 4096x1024")
        rows, columns = int(match[1]), int(match[2])
        if not rows or not columns:
            raise UsageError(f"{part.strip()!r} has no elements; expected at least one row and one column")
        if rows * columns > 2**32:
            raise UsageError(f"{part.strip()!r} has {rows * columns:,} elements; expected at most {2**32:,}")
        shapes.append((rows, columns))
    return tuple(dict.fromkeys(shapes))
