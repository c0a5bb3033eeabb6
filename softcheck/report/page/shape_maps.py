"""Maps of the shapes that were judged, rows over columns, coloured by what failed there."""

import math
from collections.abc import Iterable, Mapping, Sequence

from softcheck.probes.judged_shapes import REFUSED, RIGHT, Size, read
from softcheck.report import content, figures
from softcheck.report.model import Finding, Report, VariantResult
from softcheck.report.page.svg import Axis, Chart, number

_CELLS = 4
"""Cells of a map to an octave, in either direction."""
_SIDE, _SIDE_OF_RIGHT = 6.0, 2.6
"""Pixels of a cell's mark. The marks of right shapes lie upon those of failing ones in the same cell."""
_LOW, _ROOM = 0.7, 1.4
"""The low end of the axes, and their high ends over the largest sizes."""
_SERIES = 6
"""Colours that a map has."""


def contents(report: Report) -> Mapping[str, object]:
    """The maps of variants of which some shape failed or that have several regimes, and the extent of all others."""
    judged = [(r, found) for r in report.variants if r.judged_shapes and (found := _by_kinds(r.judged_shapes))]
    maps = [_map(result, found) for result, found in judged if _is_told(result, found)]
    plain = [f"{content.subject(r)} ({_extent(found)})" for r, found in judged if not _is_told(r, found)]
    return {"maps": maps, "plain": plain} if judged else {}


def _is_told(result: VariantResult, found: Mapping[str, Sequence[Size]]) -> bool:
    return set(found) != {RIGHT} or len(result.seen_regimes) > 1


def _by_kinds(judged: Mapping[str, str]) -> dict[str, list[Size]]:
    """Shapes by all the kinds that they showed together, the kinds of most shapes first, and those that were right last."""
    shown: dict[Size, list[str]] = {}
    for kind, text in judged.items():
        for shape in read(text):
            if 0 not in shape:
                shown.setdefault(shape, []).append(content.one_line(kind))
    found: dict[str, list[Size]] = {}
    for shape, kinds in shown.items():
        found.setdefault(", ".join(sorted(kinds)), []).append(shape)
    order = sorted(found, key=lambda kinds: (kinds == RIGHT, kinds == REFUSED, -len(found[kinds]), kinds))
    return {kinds: sorted(found[kinds]) for kinds in order}


def _extent(found: Mapping[str, Sequence[Size]]) -> str:
    shapes = found[RIGHT]
    rows, columns = max(r for r, _ in shapes), max(c for _, c in shapes)
    return f"{figures.plural(len(shapes), 'shape')} to {rows:,} rows and {columns:,} columns"


def _map(result: VariantResult, found: dict[str, list[Size]]) -> dict[str, object]:
    regimes = list(result.seen_regimes) if len(result.seen_regimes) > 1 else []
    every = [*(shape for shapes in found.values() for shape in shapes), *(regime.narrowest for regime in regimes)]
    x, y = (
        Axis(title, _LOW, _ROOM * max(shape[at] for shape in every), 2) for title, at in (("columns", 1), ("rows", 0))
    )
    chart = Chart(x, y, width=640, height=380)
    colours = _colours(found)
    taken: set[tuple[int, int]] = set()
    for kinds, shapes in found.items():
        cells = {_cell(shape) for shape in shapes}
        if kinds != RIGHT:
            cells -= taken
            taken |= cells
        places = sorted((2.0 ** (column / _CELLS), 2.0 ** (row / _CELLS)) for row, column in cells)
        chart.squares(places, colours[kinds], side=_SIDE_OF_RIGHT if kinds == RIGHT else _SIDE, title=kinds)
    name = content.subject(result)
    return {
        "subject": name,
        "chart": chart.svg(f"judged shapes of {name}", "the list and the table below hold what failed"),
        "shown": [(colours[kinds], kinds, len(shapes)) for kinds, shapes in found.items()],
        "predicates": _predicates(result),
        "regimes": [(content.one_line(r.words), content.one_line(", ".join(r.launches))) for r in regimes],
        "table": [[kinds, str(len(shapes)), _listed(shapes)] for kinds, shapes in found.items() if kinds != RIGHT],
    }


def _colours(found: Iterable[str]) -> dict[str, str]:
    """A class for each combination of kinds; those beyond the number of colours share the last."""
    wrong = [kinds for kinds in found if kinds not in (RIGHT, REFUSED)]
    return {RIGHT: "muted", REFUSED: "unsupported"} | {
        kinds: f"series-{min(place, _SERIES)}" for place, kinds in enumerate(wrong, 2)
    }


def _cell(shape: Size) -> tuple[int, int]:
    return round(_CELLS * math.log2(shape[0])), round(_CELLS * math.log2(shape[1]))


def _predicates(result: VariantResult) -> list[tuple[str, str]]:
    """The failing sizes as probes over sizes name them, with the kinds and the first finding of each."""
    said: dict[str, list[Finding]] = {}
    for finding in result.findings:
        where, sweep = finding.facts.where, finding.facts.sweep
        if where is not None and sweep is not None:
            layout = f"{content.one_line(way)}, " if (way := finding.facts.way.get("layout")) else ""
            said.setdefault(f"{layout}{where.words()} ({sweep.words()})", []).append(finding)
    return [
        (f"{', '.join(dict.fromkeys(f.kind for f in found))}: {words}", found[0].id) for words, found in said.items()
    ]


def _listed(shapes: Sequence[Size], most: int = 40) -> str:
    """The smallest shapes, rows before columns, and the number of all others."""
    ordered = sorted(shapes, key=lambda shape: (shape[0] * shape[1], shape))
    text = ", ".join(f"{number(rows)}{figures.TIMES}{number(columns)}" for rows, columns in ordered[:most])
    return f"{text} and {len(shapes) - most} more" if len(shapes) > most else text
