"""Hypothesis strategies for what stands beside a matrix: targets, masks and gradients, each row's in the row's place."""

from collections.abc import Collection

import numpy as np
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument
from numpy.typing import NDArray

from oracles.formats import FLOAT32, FORMATS, Bits, decode
from softcheck.cases.operands import Operands
from softcheck.cases.recipe import Constant, Cycle, Mask, Normal, Number, OneHot, Recipe, RowConstants

_SEAM = 64
"""Columns of the narrowest usual tile: targets at multiples of it, and before them, are drawn more often."""

_NUMBERS: tuple[float, ...] = (0.0, 1.0, -1.0, 0.25, -100.0)

NAMED = ("target", "grad", "behind")
"""Operands that a drawn case may name."""


def targets(rows: int, columns: int, *, ignore_index: int | None = None) -> st.SearchStrategy[NDArray[np.int64]]:
    """The column of each row that is asked for, int64 [rows]; some are the ``ignore_index``, if there is one.

    The first and the last column and those around multiples of 64 are drawn more often. Shrinks towards column 0. Raises
    hypothesis' InvalidArgument where there is no column.
    """
    if columns < 1:
        raise InvalidArgument(f"columns={columns!r}; expected at least 1, since a target is a column")
    last = columns - 1
    seams = sorted({last, *(c for s in range(_SEAM, columns, _SEAM) for c in (s - 1, s))})
    column = st.integers(0, last) | st.sampled_from(seams)
    each = column if ignore_index is None else column | st.just(ignore_index)
    return st.lists(each, min_size=rows, max_size=rows).map(lambda found: np.array(found, dtype=np.int64))


def masks(rows: int, columns: int) -> st.SearchStrategy[NDArray[np.bool_]]:
    """Masks, bool [rows, columns], True where the input is hidden: runs, every second column, whole rows, all, none.

    Shrinks towards a mask that hides nothing.
    """
    count = st.integers(0, columns)
    row = st.none() | st.integers(0, max(0, rows - 1))
    hide = st.one_of(
        st.builds(Mask, st.sampled_from(["trailing", "leading", "all_but"]), count, st.just("-inf"), row),
        st.builds(Mask, st.sampled_from(["even", "odd", "all"]), st.just(0), st.just("-inf"), row),
    )

    def hidden(then: list[Mask]) -> NDArray[np.bool_]:
        values = decode(Recipe(Constant(0.0), tuple(then)).bits(rows, columns, FLOAT32), FLOAT32)
        return np.isneginf(values)

    return st.lists(hide, max_size=3).map(hidden)


def gradients(dtype: str, rows: int, columns: int) -> st.SearchStrategy[Bits]:
    """Gradients of an output as bit patterns, an unsigned array [rows, columns], all finite.

    They are constant, as those of a sum, constant in each row, 0 but in one column, alternating or normal. Shrinks towards 0.
    Raises hypothesis' InvalidArgument for an unknown dtype.
    """
    if dtype not in FORMATS:
        raise InvalidArgument(f"dtype={dtype!r}; expected one of {', '.join(FORMATS)}")
    return _gradient_recipes().map(lambda recipe: recipe.bits(rows, columns, FORMATS[dtype]))


def with_targets(
    matrices: st.SearchStrategy[Bits], *, ignore_index: int | None = None
) -> st.SearchStrategy[tuple[Bits, NDArray[np.int64]]]:
    """Matrices with a target for each row: a matrix of ``matrices``, and ``targets`` of its shape."""
    return matrices.flatmap(lambda bits: st.tuples(st.just(bits), targets(*_shape(bits), ignore_index=ignore_index)))


def with_masks(matrices: st.SearchStrategy[Bits]) -> st.SearchStrategy[tuple[Bits, NDArray[np.bool_]]]:
    """Matrices with a mask of their shape; what stands behind the mask is as the matrix has it."""
    return matrices.flatmap(lambda bits: st.tuples(st.just(bits), masks(*_shape(bits))))


def with_gradients(matrices: st.SearchStrategy[Bits], dtype: str) -> st.SearchStrategy[tuple[Bits, Bits]]:
    """Matrices with the gradients of an output of their shape, as patterns of the same dtype."""
    return matrices.flatmap(lambda bits: st.tuples(st.just(bits), gradients(dtype, *_shape(bits))))


@st.composite
def operands(draw: st.DrawFn, bits: Bits, names: Collection[str], ignore_index: int | None) -> Operands | None:
    """The operands of these names for a case's matrix; None if there are no names or no columns."""
    rows, columns = _shape(bits)
    if not names or not columns:
        return None
    found: dict[str, object] = {}
    if "target" in names:
        found["target"] = tuple(int(t) for t in draw(targets(rows, columns, ignore_index=ignore_index)))
        found["parameters"] = {} if ignore_index is None else {"ignore_index": float(ignore_index)}
    if "grad" in names:
        found["grad"] = draw(_gradient_recipes())
    if "behind" in names:
        seen: list[Number] = [0.0, "nan", "inf", "max", "min", 1000.0]
        found["behind"] = Recipe(Constant(draw(st.sampled_from(seen))))
    return Operands(**found)  # type: ignore[arg-type]


def _gradient_recipes() -> st.SearchStrategy[Recipe]:
    numbers = st.sampled_from(_NUMBERS)
    pairs = st.tuples(numbers, numbers, numbers)
    return st.one_of(
        st.builds(Recipe, st.builds(Constant, numbers)),
        st.builds(Recipe, st.builds(RowConstants, pairs)),
        st.builds(Recipe, st.builds(Cycle, pairs)),
        st.builds(Recipe, st.builds(OneHot, st.just(0.0), numbers, st.integers(0, 200))),
        st.builds(Recipe, st.builds(Normal, st.integers(0, 2**32 - 1))),
    )


def _shape(bits: Bits) -> tuple[int, int]:
    return (bits.shape[0], bits.shape[1])
