"""One look for all plots: legible in black and white, since every variant has a marker and a line style of its own."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from softcheck.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "osD^v<>PX*hp8d"
_LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_GREYS = ("0.0", "0.35", "0.55")

_SETTINGS = {
    "svg.fonttype": "none",  # text stays text, so that it can be searched and read aloud
    "svg.hashsalt": "softcheck",
    "font.size": 9,
    "axes.grid": True,
    "grid.color": "0.9",
    "axes.axisbelow": True,
}


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
    """Marker, line style and grey of the variant with this number; no two of the first 70 are the same."""
    return {
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": _LINES[number % len(_LINES)],
        "color": _GREYS[number % len(_GREYS)],
        "markersize": 5,
        "linewidth": 1.2,
    }


def legend(axes: "Axes") -> None:
    """Beside the axes, where it hides nothing."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, handlelength=3.5)


def save(drawn: "Figure", folder: Path, name: str) -> list[Path]:
    """Writes NAME.svg and NAME.png; the same data give the same SVG. Returns the paths."""
    paths = []
    try:
        for ending, metadata in (("svg", {"Date": None, "Creator": "softcheck"}), ("png", {"Software": "softcheck"})):
            path = folder / f"{name}.{ending}"
            drawn.savefig(path, metadata=metadata, dpi=150)
            paths.append(path)
    except OSError as error:
        raise UsageError(f"{path} can't be written ({error.strerror}); name another folder") from None
    return paths
