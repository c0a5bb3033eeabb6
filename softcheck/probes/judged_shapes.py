"""Shapes of the calls that were judged, by what they showed, in few characters. Imports no torch.

A shape is written as ROWSxCOLUMNS, such as ``2x129``, and neighbouring widths of as many rows as ROWSxFIRST-LAST, such as
``2x1-1100``. Spaces part one from the next.
"""

import re
from collections.abc import Iterable, Iterator

from softcheck.errors import UsageError

RIGHT = "right"
"""The name of shapes that broke no promise, beside the kinds of findings."""
REFUSED = "refused"
"""The name of shapes that a variant turned down, where that is a limit of sizes and no finding."""

_WORD = re.compile(r"([0-9]{1,12})x([0-9]{1,12})(?:-([0-9]{1,12}))?")
_MOST_WIDTHS = 2**21
"""Widths that one word may name; probes try far fewer."""

Size = tuple[int, int]
"""Rows and columns."""


def by_kind(judged: Iterable[Size], failing: Iterable[tuple[str, Iterable[Size]]]) -> dict[str, str]:
    """Writes the shapes that broke a promise by its kind, and all others as right. Kinds without shapes are left out."""
    found = {str(kind): frozenset(shapes) for kind, shapes in failing}
    right = frozenset(judged).difference(*found.values())
    return {kind: written(shapes) for kind, shapes in {**found, RIGHT: right}.items() if shapes}


def written(shapes: Iterable[Size]) -> str:
    """Writes shapes, each once, in the order of their rows and columns."""
    runs: list[tuple[int, int, int]] = []
    for rows, columns in sorted(set(shapes)):
        if runs and runs[-1][0] == rows and runs[-1][2] == columns - 1:
            runs[-1] = (rows, runs[-1][1], columns)
        else:
            runs.append((rows, columns, columns))
    return " ".join(f"{rows}x{first}" if first == last else f"{rows}x{first}-{last}" for rows, first, last in runs)


def read(text: str) -> Iterator[Size]:
    """Reads what ``written`` wrote. Raises UsageError for another text."""
    for word in text.split():
        found = _WORD.fullmatch(word)
        rows, first, last = (int(number or 0) for number in found.groups()) if found is not None else (0, 0, 0)
        if found is None or last - first > _MOST_WIDTHS:
            raise UsageError(
                f"{word[:80]!r} names no shapes; expected ROWSxCOLUMNS or ROWSxFIRST-LAST; make the report again"
            )
        yield from ((rows, n) for n in range(first, max(first, last) + 1))
