"""Hypothesis strategies for softmax inputs, built from bit patterns.

``bit_patterns`` draws single elements, ``rows`` and ``matrices`` arrays of patterns, ``cases`` complete cases that a
corpus can store. Hypothesis' own ``floats()`` knows no bfloat16, and uniform patterns alone hardly ever meet what breaks
a softmax kernel; so most matrices are those of the case families, with other seeds and shapes, and with masks and edge
values put in. All shrink towards few rows and columns of zeros.

``targets``, ``masks`` and ``gradients`` draw what stands beside a matrix, and ``with_targets``, ``with_masks`` and ``with_gradients``
both together.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import TypedDict, Unpack

import numpy as np
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument
from msgspec.structs import replace
from numpy.typing import NDArray

from oracles.formats import FLOAT32, FORMATS, Bits, Format, decode
from softcheck.cases.case import GENERATED, PACKED, Case, Layout
from softcheck.cases.corpus import load
from softcheck.cases.edges import EXP_THRESHOLDS, edge_patterns, least_normal_distance, zero_distance
from softcheck.cases.operands import Operands
from softcheck.cases.recipe import (
    AnyModifier,
    Constant,
    Cycle,
    Mask,
    Normal,
    Number,
    OneHot,
    Put,
    Recipe,
    RowConstants,
    Shift,
    Sort,
)

_EDGE_WIDTHS = (1, 2, 127, 128, 129, 511, 512, 513)
_MOST_LISTED = 16
"""Matrices of up to about this many elements may be drawn element by element; larger ones come from recipes."""


def bit_patterns(
    dtype: str, *, allow_nan: bool = True, allow_infinity: bool = True, allow_negative_infinity: bool = True
) -> st.SearchStrategy[int]:
    """Bit patterns of one element: the format's edge values, and every other pattern.

    ``allow_infinity`` speaks of +inf alone, since -inf is an ordinary masked logit and +inf is not. Shrinks towards 0.
    Raises hypothesis' InvalidArgument for an unknown dtype.
    """
    fmt = _format(dtype)
    sign = 1 << (fmt.width - 1)
    magnitudes = st.integers(0, fmt.exponent_mask - 1)
    choices = [
        # First, and drawn without further choices, so that every element shrinks to it.
        st.just(0),
        st.sampled_from(edge_patterns(fmt)),
        st.builds(lambda magnitude, negative: magnitude | (sign if negative else 0), magnitudes, st.booleans()),
    ]
    if allow_negative_infinity:
        choices.append(st.just(fmt.exponent_mask | sign))
    if allow_infinity:
        choices.append(st.just(fmt.exponent_mask))
    if allow_nan:
        payloads = st.integers(1, (1 << (fmt.precision - 1)) - 1)
        choices.append(
            st.builds(lambda p, negative: fmt.exponent_mask | p | (sign if negative else 0), payloads, st.booleans())
        )
    return st.one_of(choices)


class _Bounds(TypedDict, total=False):
    """Bounds of a matrix, and the special values that it may hold; ``allow_infinity`` speaks of +inf alone."""

    min_rows: int
    max_rows: int
    min_columns: int
    max_columns: int
    allow_nan: bool
    allow_infinity: bool
    allow_negative_infinity: bool


def rows(dtype: str, **bounds: Unpack[_Bounds]) -> st.SearchStrategy[Bits]:
    """One row as an unsigned array of shape [columns]. See ``matrices``."""
    of_one: _Bounds = {**bounds, "min_rows": 1, "max_rows": 1}
    return matrices(dtype, **of_one).map(lambda matrix: matrix[0])


def matrices(dtype: str, **bounds: Unpack[_Bounds]) -> st.SearchStrategy[Bits]:
    """Matrices of bit patterns, an unsigned array of shape [rows, columns].

    ``min_rows`` is 1, ``max_rows`` 4, ``min_columns`` 1 and ``max_columns`` 1025 by default; column counts favour 1, 2 and the
    neighbours of 128 and 512. NaN and +inf appear only with ``allow_nan`` and ``allow_infinity``, -inf unless
    ``allow_negative_infinity`` is false. Raises hypothesis' InvalidArgument for an unknown dtype and for bounds that contradict
    each other.
    """
    return _contents(_format(dtype), _Limits(**bounds)).map(lambda content: content[0])


def cases(
    dtype: str,
    *,
    allow_layouts: bool = False,
    operand_names: Collection[str] = (),
    ignore_index: int | None = None,
    **bounds: Unpack[_Bounds],
) -> st.SearchStrategy[Case]:
    """Complete cases named ``generated/<digest>/<dtype>``; small ones hold their bits, larger ones a recipe.

    Bounds are those of ``matrices``, but NaN and +inf appear unless forbidden. ``allow_layouts`` draws row steps, column
    slices, transposed matrices and odd offsets too. ``operand_names`` are those of ``target``, ``grad`` and ``behind`` that
    each case names; some targets are the ``ignore_index``, if there is one. Raises as ``matrices``, and InvalidArgument for
    another name.
    """
    fmt = _format(dtype)
    if unknown := sorted(set(operand_names) - set(_NAMED)):
        raise InvalidArgument(f"operand_names holds {unknown[0]!r}; expected names among {', '.join(_NAMED)}")
    every: _Bounds = {"allow_nan": True, "allow_infinity": True, **bounds}
    contents = _contents(fmt, _Limits(**every))

    @st.composite
    def drawn(draw: st.DrawFn) -> Case:
        bits, recipe = draw(contents)
        layout = draw(_layouts(*bits.shape)) if allow_layouts else PACKED
        named = draw(_operands(bits, operand_names, ignore_index))
        provenance = "generated by softcheck.strategies"
        return Case.of(bits, fmt, family=GENERATED, recipe=recipe, layout=layout, operands=named, provenance=provenance)

    return drawn()


def _format(dtype: str) -> Format:
    if dtype not in FORMATS:
        raise InvalidArgument(f"dtype={dtype!r} is unknown; expected one of {', '.join(FORMATS)}")
    return FORMATS[dtype]


@dataclass(frozen=True, slots=True)
class _Limits:
    """``_Bounds`` with what they are where nobody says."""

    min_rows: int = 1
    max_rows: int = 4
    min_columns: int = 1
    max_columns: int = 1025
    allow_nan: bool = False
    allow_infinity: bool = False
    allow_negative_infinity: bool = True

    @property
    def specials(self) -> dict[Number, bool]:
        """The special values, each with True if it may appear."""
        return {"nan": self.allow_nan, "inf": self.allow_infinity, "-inf": self.allow_negative_infinity}

    def check(self) -> None:
        for name in ("rows", "columns"):
            low, high = getattr(self, f"min_{name}"), getattr(self, f"max_{name}")
            if not 0 <= low <= high:
                raise InvalidArgument(
                    f"min_{name}={low!r}, max_{name}={high!r}; expected 0 <= min_{name} <= max_{name}"
                )

    def any(self) -> st.SearchStrategy[tuple[int, int]]:
        """Any shape, small and edge widths more often."""
        edges = [width for width in _EDGE_WIDTHS if self.min_columns <= width <= self.max_columns]
        columns = st.integers(self.min_columns, min(self.max_columns, self.min_columns + 7))
        if edges:
            columns |= st.sampled_from(edges)
        rows = st.integers(self.min_rows, self.max_rows)
        return st.tuples(rows, columns | st.integers(self.min_columns, self.max_columns))

    def few(self) -> st.SearchStrategy[tuple[int, int]] | None:
        """Shapes of few elements; None where the bounds admit none."""
        if self.min_rows * self.min_columns > _MOST_LISTED:
            return None
        most_rows = min(self.max_rows, max(self.min_rows, _MOST_LISTED // max(self.min_columns, 1)))
        most_columns = min(self.max_columns, max(self.min_columns, _MOST_LISTED // max(most_rows, 1)))
        return st.tuples(st.integers(self.min_rows, most_rows), st.integers(self.min_columns, most_columns))


def _contents(fmt: Format, limits: _Limits) -> st.SearchStrategy[tuple[Bits, Recipe | None]]:
    """Draws bits of a matrix, and the recipe that makes them if there is one."""
    limits.check()
    specials = limits.specials
    words: list[Number] = ["max", "min", "least_normal", "least_subnormal", 0.0, 1.0, -100.0]
    words += [word for word, allowed in specials.items() if allowed]
    refused = [float(word) for word, allowed in specials.items() if not allowed]
    made: st.SearchStrategy[tuple[Bits, Recipe | None]] = st.builds(
        _made,
        st.just(fmt),
        limits.any(),
        _recipes(fmt),
        st.lists(_modifiers(words, "-inf" if specials["-inf"] else "min"), max_size=3),
        st.none() | st.builds(Shift, st.floats(-64.0, 64.0)),
    ).filter(lambda content: not _holds(content[0], fmt, refused))
    few = limits.few()
    allowed = {name: getattr(limits, name) for name in ("allow_nan", "allow_infinity", "allow_negative_infinity")}
    element = bit_patterns(fmt.name, **allowed)
    return made if few is None else few.flatmap(lambda shape: _listed(fmt, shape, element)) | made


def _holds(bits: Bits, fmt: Format, refused: list[float]) -> bool:
    """True if any element is one of these special values."""
    values = decode(bits, fmt)
    return any(bool((np.isnan(values) if np.isnan(value) else values == value).any()) for value in refused)


def _listed(
    fmt: Format, shape: tuple[int, int], element: st.SearchStrategy[int]
) -> st.SearchStrategy[tuple[Bits, Recipe | None]]:
    count = shape[0] * shape[1]
    patterns = st.lists(element, min_size=count, max_size=count)
    return patterns.map(lambda found: (np.array(found, dtype=fmt.storage).reshape(shape), None))


def _made(
    fmt: Format, shape: tuple[int, int], recipe: Recipe, then: list[AnyModifier], shift: Shift | None
) -> tuple[Bits, Recipe]:
    first = () if shift is None else (shift,)
    recipe = Recipe(recipe.start, (*recipe.then, *first, *then))
    return recipe.bits(*shape, fmt), recipe


_SHORT = (
    *(Recipe(OneHot(low, 0.0)) for low in (-2.0, -12.0, -200.0)),
    Recipe(OneHot("min", "max")),
    *(
        Recipe(Cycle(items))
        for items in (("max", "min", 0.0, 1.0, -1.0), ("min", "-inf"), (0.0, -0.0), (-8.0, -7.5, -9.25))
    ),
    *(Recipe(RowConstants(items)) for items in (("max", "min"), (-3.5, 0.0, 1.0))),
    *(Recipe(Constant(value)) for value in ("min", "-inf", "nan")),
    Recipe(Normal(0), (Mask("trailing", 3),)),
)
"""Recipes of short rows, which a corpus holds as bits."""


@cache
def _edge_cases(dtype: str) -> list[Case]:
    return [case for case in load(["edge"]) if case.dtype == dtype]


def _recipes(fmt: Format) -> st.SearchStrategy[Recipe]:
    """Rows of zeros, peaks over logits at distances of interest, and the families' recipes with other seeds."""
    recipes = [*_SHORT, *dict.fromkeys(case.recipe for case in _edge_cases(fmt.name) if case.recipe is not None)]
    seeded = [recipe for recipe in recipes if hasattr(recipe.start, "seed")]
    unseeded = [recipe for recipe in recipes if not hasattr(recipe.start, "seed")]
    reseeded = st.builds(
        lambda recipe, seed: replace(recipe, start=replace(recipe.start, seed=seed)),
        st.sampled_from(seeded),
        st.integers(0, 2**32 - 1),
    )
    # First, and drawn without further choices, so that every recipe shrinks to it.
    return st.one_of(st.just(Recipe(Constant(0.0))), _peak_and_offsets(fmt), st.sampled_from(unseeded), reseeded)


def _peak_and_offsets(fmt: Format) -> st.SearchStrategy[Recipe]:
    """A peak, and logits below it by nothing, by a little, or by a distance at which exp changes its behaviour."""
    distances = st.sampled_from([*(-x for x in EXP_THRESHOLDS), least_normal_distance(fmt), zero_distance(fmt)])
    near_threshold = st.builds(lambda distance, off: distance + off / 64, distances, st.integers(-8, 8))
    below = st.lists(st.floats(0.0, 20.0) | near_threshold, min_size=1, max_size=8)
    return st.builds(lambda peak, ds: Recipe(Cycle((peak, *(peak - d for d in ds)))), st.floats(-64.0, 64.0), below)


def _modifiers(words: list[Number], mask: Number) -> st.SearchStrategy[AnyModifier]:
    row = st.none() | st.integers(0, 3)
    # Columns beyond the last wrap around or hit nothing, and counts beyond the width mask the whole row.
    column = st.integers(0, 8) | st.sampled_from([-1, -2, 64, 127, 128, 511, 512]) | st.integers(0, 1024)
    count = st.integers(0, 8) | st.integers(0, 1024)
    return st.one_of(
        st.builds(Put, column, st.sampled_from(words), row),
        *_hiding(count, mask, row),
        st.builds(Sort, st.booleans()),
    )


def _hiding(
    count: st.SearchStrategy[int], mask: Number, row: st.SearchStrategy[int | None]
) -> tuple[st.SearchStrategy[Mask], ...]:
    """Masks of some columns, and of every second one or all."""
    return (
        st.builds(Mask, st.sampled_from(["trailing", "leading", "all_but"]), count, st.just(mask), row),
        st.builds(Mask, st.sampled_from(["even", "odd", "all"]), st.just(0), st.just(mask), row),
    )


def _layouts(row_count: int, columns: int) -> st.SearchStrategy[Layout]:
    """Layouts in which no two elements share an address."""
    offsets = st.integers(0, 3)
    padded = st.integers(0, 2 * columns + 3).map(lambda extra: columns + extra)
    return st.one_of(
        st.just(PACKED),
        st.builds(lambda offset: Layout(offset=offset), offsets),
        st.builds(lambda stride, offset: Layout(stride, 1, offset), padded, offsets),
        st.builds(lambda offset: Layout(1, row_count + 1, offset), offsets),
        st.builds(lambda offset: Layout(2 * columns, 2, offset), offsets),
    )


_SEAM = 64
"""Columns of the narrowest usual tile: targets at multiples of it, and before them, are drawn more often."""

_NUMBERS: tuple[float, ...] = (0.0, 1.0, -1.0, 0.25, -100.0)

_NAMED = ("target", "grad", "behind")
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
    row = st.none() | st.integers(0, max(0, rows - 1))
    hide = st.one_of(_hiding(st.integers(0, columns), "-inf", row))

    def hidden(then: list[Mask]) -> NDArray[np.bool_]:
        values = decode(Recipe(Constant(0.0), tuple(then)).bits(rows, columns, FLOAT32), FLOAT32)
        return np.isneginf(values)

    return st.lists(hide, max_size=3).map(hidden)


def gradients(dtype: str, rows: int, columns: int) -> st.SearchStrategy[Bits]:
    """Gradients of an output as bit patterns, an unsigned array [rows, columns], all finite.

    They are constant, as those of a sum, constant in each row, 0 but in one column, alternating or normal. Shrinks towards 0.
    Raises hypothesis' InvalidArgument for an unknown dtype.
    """
    fmt = _format(dtype)
    return _gradient_recipes().map(lambda recipe: recipe.bits(rows, columns, fmt))


def with_targets(
    matrices: st.SearchStrategy[Bits], *, ignore_index: int | None = None
) -> st.SearchStrategy[tuple[Bits, NDArray[np.int64]]]:
    """Matrices with a target for each row: a matrix of ``matrices``, and ``targets`` of its shape."""
    return matrices.flatmap(lambda bits: st.tuples(st.just(bits), targets(*bits.shape, ignore_index=ignore_index)))


def with_masks(matrices: st.SearchStrategy[Bits]) -> st.SearchStrategy[tuple[Bits, NDArray[np.bool_]]]:
    """Matrices with a mask of their shape; what stands behind the mask is as the matrix has it."""
    return matrices.flatmap(lambda bits: st.tuples(st.just(bits), masks(*bits.shape)))


def with_gradients(matrices: st.SearchStrategy[Bits], dtype: str) -> st.SearchStrategy[tuple[Bits, Bits]]:
    """Matrices with the gradients of an output of their shape, as patterns of the same dtype."""
    return matrices.flatmap(lambda bits: st.tuples(st.just(bits), gradients(dtype, *bits.shape)))


@st.composite
def _operands(draw: st.DrawFn, bits: Bits, names: Collection[str], ignore_index: int | None) -> Operands | None:
    """The operands of these names for a case's matrix; None if there are no names or no columns."""
    rows, columns = bits.shape
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
