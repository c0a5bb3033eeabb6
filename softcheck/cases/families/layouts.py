"""Family of memory layouts: what lies between the elements of a row is NaN, so a stride that is ignored shows."""

from collections.abc import Iterator

from oracles.formats import Format
from softcheck.cases.case import Layout
from softcheck.cases.families.draft import Draft, made
from softcheck.cases.recipe import Cycle, Normal


def layout(_fmt: Format) -> Iterator[Draft]:
    """Row steps, column slices, transposed and expanded matrices, odd offsets."""
    for columns in (129, 513, 1025):
        yield _normal(0, f"row-step-{columns}", 3, columns, Layout(2 * columns), 39, "strided")
    for columns, stride, offset in ((129, 200, 5), (385, 781, 64), (781, 1024, 100)):
        yield _normal(1, f"column-slice-{columns}", 3, columns, Layout(stride, 1, offset), 41, "strided offset")
    for columns in (5, 129, 641):
        yield _normal(2, f"transposed-{columns}", 4, columns, Layout(1, 4), 40, "strided transposed")
    yield _normal(3, "every-second-column-33", 3, 33, Layout(66, 2), 40, "strided")
    cycle = Cycle((-8.0, -7.5, -9.25))
    yield made("expanded-513", 3, 513, cycle, layout=Layout(0), why=41, tags="strided expanded")
    for offset in (1, 2, 3):
        yield _normal(4, f"offset-{offset}", 3, 128 + offset, Layout(offset=offset), 31, "offset")
    for columns, extra in ((127, 1), (1023, 9)):
        yield _normal(5, f"padded-rows-{columns}", 3, columns, Layout(columns + extra), 41, "strided")


def _normal(kind: int, name: str, rows: int, columns: int, laid: Layout, why: int, tags: str) -> Draft:
    """Normal logits; a width alone is the seed of the packed case of that width, so each kind of layout has its own."""
    start = Normal(200_000 + 100_000 * kind + columns, 2.0, round(-5.0 - kind / 10, 1))
    return made(name, rows, columns, start, layout=laid, why=why, tags=tags)
