"""Family of memory layouts: what lies between the elements of a row is NaN, so a stride that is ignored shows."""

from collections.abc import Iterator

from oracles.formats import Format
from softcheck.cases.case import Layout
from softcheck.cases.families.draft import Draft, made
from softcheck.cases.families.provenance import field_report
from softcheck.cases.recipe import Cycle, Normal

_ROW_STEP, _COLUMN_SLICE, _TRANSPOSED, _EVERY_SECOND, _OFFSET, _PADDED = range(200_000, 800_000, 100_000)
"""First seeds of each layout. A width alone is the seed of the packed case of that width."""


def layout(_fmt: Format) -> Iterator[Draft]:
    """Row steps, column slices, transposed and expanded matrices, odd offsets."""
    for columns in (129, 513, 1025):
        strided = Layout(row_stride=2 * columns)
        yield made(
            f"row-step-{columns}",
            3,
            columns,
            Normal(_ROW_STEP + columns, 2.0, -5.0),
            layout=strided,
            why=field_report(39),
            tags=("strided",),
        )
    for columns, stride, offset in ((129, 200, 5), (385, 781, 64), (781, 1024, 100)):
        sliced = Layout(row_stride=stride, offset=offset)
        yield made(
            f"column-slice-{columns}",
            3,
            columns,
            Normal(_COLUMN_SLICE + columns, 2.0, -5.1),
            layout=sliced,
            why=field_report(41),
            tags=("strided", "offset"),
        )
    for columns in (5, 129, 641):
        turned = Layout(row_stride=1, column_stride=4)
        yield made(
            f"transposed-{columns}",
            4,
            columns,
            Normal(_TRANSPOSED + columns, 2.0, -5.2),
            layout=turned,
            why=field_report(40),
            tags=("strided", "transposed"),
        )
    for columns in (33,):
        every_second = Layout(row_stride=2 * columns, column_stride=2)
        yield made(
            f"every-second-column-{columns}",
            3,
            columns,
            Normal(_EVERY_SECOND + columns, 2.0, -5.3),
            layout=every_second,
            why=field_report(40),
            tags=("strided",),
        )
    same = Layout(row_stride=0)
    yield made(
        "expanded-513",
        3,
        513,
        Cycle((-8.0, -7.5, -9.25)),
        layout=same,
        why=field_report(41),
        tags=("strided", "expanded"),
    )
    for offset in (1, 2, 3):
        columns = 128 + offset
        yield made(
            f"offset-{offset}",
            3,
            columns,
            Normal(_OFFSET + columns, 2.0, -5.4),
            layout=Layout(offset=offset),
            why=field_report(31),
            tags=("offset",),
        )
    for columns, extra in ((127, 1), (1023, 9)):
        padded = Layout(row_stride=columns + extra)
        yield made(
            f"padded-rows-{columns}",
            3,
            columns,
            Normal(_PADDED + columns, 2.0, -5.5),
            layout=padded,
            why=field_report(41),
            tags=("strided",),
        )
