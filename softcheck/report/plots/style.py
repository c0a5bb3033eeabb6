"""One look for all plots: colours that the colour-blind tell apart, a marker for each variant, and names beside what they name."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softcheck.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "osD^v<>PX*hp8d"
_COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""The palette of Okabe and Ito (Color Universal Design, 2008) without its yellow, which is too light for a line on white."""
_LINES: tuple[Any, ...] = ("-", "--", ":")
_INK = "0.15"
_NAME_SIZE = 8.0
_LEADER: dict[str, Any] = {"arrowstyle": "-", "linewidth": 0.6, "shrinkA": 1, "shrinkB": 4, "relpos": (0, 0.5)}

_SETTINGS = {
    "svg.fonttype": "none",  # text stays text, so that it can be searched and read aloud
    "svg.hashsalt": "softcheck",
    "font.size": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "0.9",
    "axes.axisbelow": True,
}


@dataclass(frozen=True, slots=True)
class NamedPoint:
    """A place in the data's units, and the name to write beside it."""

    name: str
    x: float
    y: float
    color: str


def require() -> None:
    """Raises UsageError, with the command to run, where matplotlib is missing."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise UsageError("plots need matplotlib, which is not installed; run: pip install 'softcheck[plot]'") from None
    mpl.rcParams.update(_SETTINGS)


def figure(width: float = 7.5, height: float = 4.5) -> "Figure":
    """A figure of its own, in inches, without pyplot's global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def look(number: int) -> dict[str, Any]:
    """Colour, marker and line style of the variant with this number; no two of the first 42 are the same."""
    return {
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": _LINES[number // len(_COLOURS) % len(_LINES)],
        "color": _COLOURS[number % len(_COLOURS)],
        "markersize": 5,
        "linewidth": 1.2,
    }


def name(axes: "Axes", points: Sequence[NamedPoint], *, is_scatter: bool = False) -> None:
    """Writes the name of each point right of the axes, joined to it, as near to its height as the others allow.

    A name of a scatter stands beside its point where nothing else does. The scales and the limits of the axes must be final.
    """
    to_share = axes.transScale + axes.transLimits
    at = [tuple(map(float, to_share.transform((p.x, p.y)))) for p in points]
    shown = sorted((i for i, (_, height) in enumerate(at) if math.isfinite(height)), key=lambda i: at[i][::-1])
    size = axes.get_window_extent().width, axes.get_window_extent().height
    letter, line = (share * _NAME_SIZE * axes.figure.dpi / 72 for share in (0.65 / size[0], 1.5 / size[1]))
    ends = {i: at[i][0] + (len(points[i].name) + 2) * letter for i in shown}

    def is_free(i: int) -> bool:
        near = [j for j in shown if j != i and abs(at[j][1] - at[i][1]) < line]
        return ends[i] < 1 and not any(at[j][0] < ends[i] and ends[j] > at[i][0] for j in near)

    beside = {i for i in shown if is_scatter and is_free(i)}
    right = [i for i in shown if i not in beside]
    heights = dict(zip(right, spread([at[i][1] for i in right], line), strict=True))
    for i in shown:
        axes.annotate(
            points[i].name,
            (points[i].x, points[i].y),
            (1.04, heights[i]) if i in heights else (at[i][0] + 1.5 * letter, at[i][1]),
            textcoords="axes fraction",
            color=_INK,
            fontsize=_NAME_SIZE,
            va="center",
            annotation_clip=False,
            arrowprops={**_LEADER, "color": points[i].color} if i in heights else None,
        )


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Returns ascending places at least ``gap`` apart, as near to the ascending ``wanted`` ones as least squares allow.

    Places that are too near become a group around the mean of theirs (pool adjacent violators, Ayer et al. 1955). All lie
    between 0 and 1 if there is room.
    """
    groups: list[tuple[float, int]] = []
    for number, place in enumerate(wanted):
        mean, size = place - number * gap, 1
        while groups and groups[-1][0] > mean:
            below, count = groups.pop()
            mean, size = (below * count + mean * size) / (count + size), count + size
        groups.append((mean, size))
    highest = 1 - (len(wanted) - 1) * gap
    means = [min(max(mean, 0.0), highest) for mean, size in groups for _ in range(size)]
    return [mean + number * gap for number, mean in enumerate(means)]


def save(drawn: "Figure", folder: Path, file: str) -> list[Path]:
    """Writes FILE.svg and FILE.png; the same data give the same SVG. Returns the paths."""
    paths = []
    try:
        for ending, metadata in (("svg", {"Date": None, "Creator": "softcheck"}), ("png", {"Software": "softcheck"})):
            path = folder / f"{file}.{ending}"
            drawn.savefig(path, metadata=metadata, dpi=150)
            paths.append(path)
    except OSError as error:
        raise UsageError(f"{path} can't be written ({error.strerror}); name another folder") from None
    return paths
