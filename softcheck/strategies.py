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

import numpy as np
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument
from msgspec.structs import replace

from oracles.formats import FORMATS, Bits, Format, decode
from softcheck._operand_strategies import (
    NAMED,
    gradients,
    masks,
    operands,
    targets,
    with_gradients,
    with_masks,
    with_targets,
)
from softcheck.cases.case import GENERATED, PACKED, Case, Layout
from softcheck.cases.corpus import load
from softcheck.cases.edges import EXP_THRESHOLDS, edge_patterns, least_normal_distance, zero_distance
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

__all__ = [
    "bit_patterns",
    "cases",
    "gradients",
    "masks",
    "matrices",
    "rows",
    "targets",
    "with_gradients",
    "with_masks",
    "with_targets",
]

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


def rows(
    dtype: str,
    *,
    min_columns: int = 1,
    max_columns: int = 1025,
    allow_nan: bool = False,
    allow_infinity: bool = False,
    allow_negative_infinity: bool = True,
) -> st.SearchStrategy[Bits]:
    """One row as an unsigned array of shape [columns]. See ``matrices``."""
    return matrices(
        dtype,
        min_rows=1,
        max_rows=1,
        min_columns=min_columns,
        max_columns=max_columns,
        allow_nan=allow_nan,
        allow_infinity=allow_infinity,
        allow_negative_infinity=allow_negative_infinity,
    ).map(lambda matrix: matrix[0])


def matrices(
    dtype: str,
    *,
    min_rows: int = 1,
    max_rows: int = 4,
    min_columns: int = 1,
    max_columns: int = 1025,
    allow_nan: bool = False,
    allow_infinity: bool = False,
    allow_negative_infinity: bool = True,
) -> st.SearchStrategy[Bits]:
    """Matrices of bit patterns, an unsigned array of shape [rows, columns].

    Column counts favour 1, 2 and the neighbours of 128 and 512. NaN and +inf appear only where allowed. Raises
    hypothesis' InvalidArgument for an unknown dtype and for bounds that contradict each other.
    """
    shapes = _Limits(min_rows, max_rows, min_columns, max_columns)
    contents = _contents(_format(dtype), shapes, _specials(allow_nan, allow_infinity, allow_negative_infinity))
    return contents.map(lambda content: content[0])


def cases(
    dtype: str,
    *,
    min_rows: int = 1,
    max_rows: int = 4,
    min_columns: int = 1,
    max_columns: int = 1025,
    allow_nan: bool = True,
    allow_infinity: bool = True,
    allow_negative_infinity: bool = True,
    allow_layouts: bool = False,
    operand_names: Collection[str] = (),
    ignore_index: int | None = None,
) -> st.SearchStrategy[Case]:
    """Complete cases named ``generated/<digest>/<dtype>``; small ones hold their bits, larger ones a recipe.

    ``allow_layouts`` draws row steps, column slices, transposed matrices and odd offsets too. ``operand_names`` are those of
    ``target``, ``grad`` and ``behind`` that each case names; some targets are the ``ignore_index``, if there is one. Raises as
    ``matrices``, and InvalidArgument for another name.
    """
    fmt = _format(dtype)
    if unknown := sorted(set(operand_names) - set(NAMED)):
        raise InvalidArgument(f"operand_names holds {unknown[0]!r}; expected names among {', '.join(NAMED)}")
    shapes = _Limits(min_rows, max_rows, min_columns, max_columns)
    contents = _contents(fmt, shapes, _specials(allow_nan, allow_infinity, allow_negative_infinity))

    @st.composite
    def drawn(draw: st.DrawFn) -> Case:
        bits, recipe = draw(contents)
        layout = draw(_layouts(*bits.shape)) if allow_layouts else PACKED
        named = draw(operands(bits, operand_names, ignore_index))
        provenance = "generated by softcheck.strategies"
        return Case.of(bits, fmt, family=GENERATED, recipe=recipe, layout=layout, operands=named, provenance=provenance)

    return drawn()


def _format(dtype: str) -> Format:
    if dtype not in FORMATS:
        raise InvalidArgument(f"dtype={dtype!r} is unknown; expected one of {', '.join(FORMATS)}")
    return FORMATS[dtype]


@dataclass(frozen=True, slots=True)
class _Limits:
    """Least and most rows and columns."""

    min_rows: int
    max_rows: int
    min_columns: int
    max_columns: int

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


def _specials(nan: bool, infinity: bool, negative_infinity: bool) -> dict[Number, bool]:  # noqa: FBT001 - of a private function
    """The special values, each with True if it may appear."""
    return {"nan": nan, "inf": infinity, "-inf": negative_infinity}


def _contents(
    fmt: Format, shapes: _Limits, specials: dict[Number, bool]
) -> st.SearchStrategy[tuple[Bits, Recipe | None]]:
    """Draws bits of a matrix, and the recipe that makes them if there is one."""
    shapes.check()
    words: list[Number] = ["max", "min", "least_normal", "least_subnormal", 0.0, 1.0, -100.0]
    words += [word for word, allowed in specials.items() if allowed]
    refused = [float(word) for word, allowed in specials.items() if not allowed]
    made: st.SearchStrategy[tuple[Bits, Recipe | None]] = st.builds(
        _made,
        st.just(fmt),
        shapes.any(),
        _recipes(fmt),
        st.lists(_modifiers(words, "-inf" if specials["-inf"] else "min"), max_size=3),
        st.none() | st.builds(Shift, st.floats(-64.0, 64.0)),
    ).filter(lambda content: not _holds(content[0], fmt, refused))
    few = shapes.few()
    nan, infinity, negative_infinity = specials.values()
    element = bit_patterns(fmt.name, allow_nan=nan, allow_infinity=infinity, allow_negative_infinity=negative_infinity)
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
        st.builds(Mask, st.sampled_from(["trailing", "leading", "all_but"]), count, st.just(mask), row),
        st.builds(Mask, st.sampled_from(["even", "odd", "all"]), st.just(0), st.just(mask), row),
        st.builds(Sort, st.booleans()),
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
