"""Layouts of matrices that are not packed, by name. Imports no torch."""

from softcheck.cases.case import Layout


def strided_layouts(rows: int, columns: int) -> dict[str, Layout]:
    """Returns layouts of a matrix of this shape that are not packed, by name."""
    return {
        "row-step": Layout(row_stride=2 * columns),
        "padded-by-1": Layout(row_stride=columns + 1),
        "column-slice": Layout(row_stride=2 * columns + 9, offset=5),
        "every-second-column": Layout(row_stride=2 * columns, column_stride=2),
        "every-fifth-column": Layout(row_stride=5 * columns + 3, column_stride=5),
        "every-33rd-column": Layout(row_stride=33 * columns, column_stride=33),
        "transposed": Layout(row_stride=1, column_stride=rows),
        "transposed-slice": Layout(row_stride=1, column_stride=rows + 5, offset=2),
        "transposed-with-gaps": Layout(row_stride=3, column_stride=3 * rows + 5, offset=1),
        "overlapping-rows": Layout(row_stride=1),
        "expanded-rows": Layout(row_stride=0),
        "expanded-columns": Layout(row_stride=1, column_stride=0),
        "expanded-rows-and-columns": Layout(row_stride=0, column_stride=0),
    }
