"""The exact result of each operation of a kernel, and its meaning in a softmax.

A rule returns a ``ExactRule``: the meaning of the result, and a function that computes it from values in ``longdouble``. That
function is called twice, on the exact values of the operands for the exact result, and on those that the kernel had for
the error that this operation alone adds. Exact here is what the operation stands for: a maximum and a sum leave masked
lanes out, and a sum of exponentials with different shifts rescales them first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from softcheck.tracing.shadow import (
    ABSENT,
    CONSTANT,
    DATA,
    LINEAR,
    POWERS,
    Array,
    Kind,
    Shadow,
    Wide,
    as_sets,
    in_words,
    set_of,
)

_NEARLY = 1e-12
"""Relative difference up to which two shifts are the same one."""
_LN2 = np.log(Wide(2))
_SHARED = frozenset({"maximum", "factor", "sum", "reciprocal"})
"""Kinds that may stand for a whole row beside each of its columns."""


@dataclass(frozen=True, slots=True)
class ExactRule:
    """The result of an operation but for its values; ``compute`` takes the operands' values."""

    state: Array
    row: Array
    columns: Array
    shift: Array
    kind: Kind
    compute: Callable[..., Array]
    note: str = ""

    def result(self, *exact: Array) -> Shadow:
        """The shadow of the result, from the operands' exact values."""
        values = np.where(self.state == ABSENT, Wide("nan"), self.compute(*exact))
        return Shadow(values, self.state, self.row, self.columns, self.shift, self.kind)


def unary(name: str, a: Shadow) -> ExactRule:
    """The rule of a function of one tensor: ``neg``, ``exp``, ``exp2``, ``log``, ``log2``, or another one of numpy."""
    compute: Callable[[Array], Array] = _UNARY.get(name) or getattr(np, name)
    kind: Kind = "other"
    shift = np.zeros_like(a.shift)
    if a.kind == "constant":
        kind, shift = "constant", -compute(a.exact)
    elif name in {"exp", "exp2"} and a.kind in LINEAR:
        kind, shift = "factor" if a.kind == "maximum" else "exponential", a.shift * (_LN2 if name == "exp2" else 1)
    elif name in {"log", "log2"} and a.kind in POWERS:
        kind, shift = "maximum", -compute(a.exact)
    elif name == "neg" and a.kind == "maximum":
        kind, shift = "maximum", -a.shift
    return ExactRule(a.state, a.row, a.columns, shift, kind, compute)


_UNARY: dict[str, Callable[[Array], Array]] = {"neg": np.negative, "rsqrt": lambda x: 1 / np.sqrt(x)}


def binary(name: str, a: Shadow, b: Shadow) -> ExactRule:
    """The rule of an operation on two tensors.

    ``name`` is ``add``, ``sub``, ``mul``, ``div``, ``max``, ``fmax``, ``min``, ``fmin`` or ``fmod``; the names with f leave NaN
    out.
    """
    if name == "add":
        return _added(a, b)
    if name in {"max", "fmax"}:
        return _larger(a, b, np.fmax if name == "fmax" else np.maximum)
    joined = _joined(a, b)
    if name == "sub":
        return ExactRule(*joined, *_difference(a, b), np.subtract)
    if name == "mul":
        return _multiplied(a, b, joined)
    if name == "div":
        return _divided(a, b, joined)
    return ExactRule(*joined, np.zeros_like(a.shift), "other", _OTHERS[name])


_OTHERS: dict[str, Callable[..., Array]] = {"min": np.minimum, "fmin": np.fmin, "fmod": np.fmod}


def reduction(name: str, a: Shadow, axis: int) -> ExactRule:
    """The rule of ``sum``, ``max`` or ``fmax`` along an axis.

    The row of a result is that of the first lane with data; lanes of another row don't belong into it.
    """
    held = a.state == DATA
    first = np.expand_dims(held.argmax(axis=axis), axis)
    has_data = held.any(axis=axis)
    row = np.where(has_data, np.take_along_axis(a.row, first, axis).squeeze(axis), -1)
    foreign = held & (a.row != np.expand_dims(row, axis))
    held = held & ~foreign
    # Constants take part, such as lanes of an accumulator that saw no column.
    taking = held | (a.state == CONSTANT)
    state = np.where(has_data, DATA, np.where(taking.any(axis=axis), CONSTANT, ABSENT)).astype(np.int8)
    columns = _united(a.columns, held, axis)
    note = "lanes of another row are read, which the exact value leaves out" if foreign.any() else ""
    kind: Kind = "other"
    if name != "sum":
        highest = np.fmax if name == "fmax" else np.maximum

        def largest(values: Array) -> Array:
            found: Array = highest.reduce(np.where(taking, values, -np.inf), axis=axis)
            return found

        shift = np.zeros(row.shape, Wide)
        if a.kind in {"constant", "logit", "maximum"}:
            kind, shift = ("constant" if a.kind == "constant" else "maximum"), -largest(a.exact)
        return ExactRule(state, row, columns, shift, kind, largest, note)
    weight, shift = np.ones((), Wide), np.zeros(row.shape, Wide)
    if a.kind in POWERS:
        counts = held & (a.exact != 0) & np.isfinite(a.shift)
        shift = np.where(counts, a.shift, -np.inf).max(axis=axis)
        shift = np.where(np.isfinite(shift), shift, 0)
        away = np.where(counts, a.shift - np.expand_dims(shift, axis), 0)
        weight = np.exp(away)
        kind = "other" if a.kind == "quotient" else "sum"
        note = note or _unequal(away, a.shift)

    def total(values: Array) -> Array:
        found: Array = np.where(taking, values * weight, 0).sum(axis=axis)
        return found

    return ExactRule(state, row, columns, shift, kind, total, note)


def selected(condition: Array, a: Shadow, b: Shadow) -> ExactRule:
    """The rule of ``tl.where``: each lane's meaning is that of the side that the kernel took.

    A masked lane stays one where the kernel puts a constant into its place: whatever it holds, no column stands there.
    """
    state, row, shift = (
        np.where(condition, x, y) for x, y in zip((a.state, a.row, a.shift), (b.state, b.row, b.shift), strict=True)
    )
    other = np.where(condition, b.state, a.state)
    state = np.where((state == CONSTANT) & (other == ABSENT), ABSENT, state).astype(np.int8)
    columns = a.columns, b.columns
    if columns[0].dtype != columns[1].dtype:
        columns = as_sets(columns[0]), as_sets(columns[1])
    kind = a.kind if b.kind in {a.kind, "constant"} else b.kind if a.kind == "constant" else "other"
    if kind in POWERS:
        # A number in a power's place lies below no maximum.
        shift = np.where(state == CONSTANT, np.nan, shift)

    def chosen(x: Array, y: Array) -> Array:
        return np.where(condition, x, y)

    return ExactRule(state, row, np.where(condition, *columns), shift, kind, chosen)


def _joined(a: Shadow, b: Shadow) -> tuple[Array, Array, Array]:
    """State, row and columns of lanes that depend on both operands, and are absent if either is."""
    state = np.maximum(a.state, b.state)
    row = np.where(a.state == CONSTANT, b.row, a.row)
    if not (a.has_data and b.has_data):
        return state, row, a.columns if a.has_data else b.columns
    # A maximum or a sum of the whole row stands beside each column; the column is what tells the lanes apart.
    if a.columns.dtype != object and b.columns.dtype == object and b.kind in _SHARED:
        return state, row, a.columns
    if b.columns.dtype != object and a.columns.dtype == object and a.kind in _SHARED:
        return state, row, b.columns
    if a.columns is b.columns or (a.columns.dtype == b.columns.dtype == np.int64 and (a.columns == b.columns).all()):
        return state, row, a.columns
    return state, row, as_sets(a.columns) | as_sets(b.columns)


def _difference(a: Shadow, b: Shadow) -> tuple[Array, Kind]:
    kind: Kind = "other"
    if b.kind in {"constant", "maximum"} and a.kind in LINEAR:
        kind = "shifted" if a.kind in {"logit", "shifted"} else a.kind if b.kind == "constant" else "maximum"
    return (a.shift - b.shift if kind != "other" else np.zeros_like(a.shift)), kind


def _added(a: Shadow, b: Shadow) -> ExactRule:
    """A sum; a masked lane beside an accumulator adds nothing."""
    if a.kind in LINEAR and b.kind in LINEAR:
        state, row, columns = _joined(a, b)
        kinds = {a.kind, b.kind} - {"constant"}
        kind: Kind = "constant"
        if kinds:
            logits = kinds & {"logit", "shifted"}
            kind = "maximum" if not logits else "other" if {a.kind, b.kind} <= {"logit", "shifted"} else "shifted"
        shift = a.shift + b.shift if kind != "other" else np.zeros_like(a.shift)
        return ExactRule(state, row, columns, shift, kind, np.add)
    adds_up = a.kind == b.kind or {a.kind, b.kind} <= POWERS
    absent = ((a.state == ABSENT) & adds_up, (b.state == ABSENT) & adds_up)
    keeps = (absent[0] & (b.state == DATA), absent[1] & (a.state == DATA))
    state = np.where(keeps[0] | keeps[1], DATA, np.maximum(a.state, b.state)).astype(np.int8)
    row = np.where(a.state == DATA, a.row, b.row)
    a_set, b_set = (np.where(gone, 0, as_sets(s.columns)) for gone, s in zip(absent, (a, b), strict=True))
    note, shift, kind = "", np.zeros_like(a.shift), "other"
    weights: tuple[Array, Array] = np.ones((), Wide), np.ones((), Wide)
    if a.kind in POWERS | {"constant"} and b.kind in POWERS | {"constant"}:
        # A constant, or a 0 that an accumulator starts with, has no shift of its own.
        counts = [(s.state == DATA) & (s.exact != 0) & np.isfinite(s.shift) for s in (a, b)]
        shifts = [np.where(c, s.shift, -np.inf) for c, s in zip(counts, (a, b), strict=True)]
        shift = np.maximum(*shifts)
        shift = np.where(np.isfinite(shift), shift, 0)
        away = [np.where(c, s.shift - shift, 0) for c, s in zip(counts, (a, b), strict=True)]
        weights, kind = (np.exp(away[0]), np.exp(away[1])), "sum"
        note = _unequal(np.minimum(*away), shift)
        twice = (a_set & b_set) if {a.kind, b.kind} <= {"exponential", "sum"} else np.array(0, dtype=object)
        if not note and (again := set_of(np.asarray(twice))):
            note = f"{in_words(again)} counted twice"

    def total(x: Array, y: Array) -> Array:
        found: Array = np.where(keeps[0], 0, x * weights[0]) + np.where(keeps[1], 0, y * weights[1])
        return found

    return ExactRule(state, row, a_set | b_set, shift, kind, total, note)


def _larger(a: Shadow, b: Shadow, highest: Any) -> ExactRule:
    """The larger of two; a masked lane beside an accumulator leaves the accumulator as it is."""
    keeps = ((a.state == ABSENT) & (b.state == DATA), (b.state == ABSENT) & (a.state == DATA))
    state = np.where(keeps[0] | keeps[1], DATA, np.maximum(a.state, b.state)).astype(np.int8)
    row = np.where(a.state == DATA, a.row, b.row)
    columns = as_sets(a.columns) | as_sets(b.columns)
    if (columns == as_sets(a.columns)).all():
        columns = a.columns

    def largest(x: Array, y: Array) -> Array:
        found: Array = highest(np.where(keeps[0], -np.inf, x), np.where(keeps[1], -np.inf, y))
        return found

    if {a.kind, b.kind} <= {"constant", "logit", "maximum"}:
        return ExactRule(state, row, columns, -largest(a.exact, b.exact), "maximum", largest)
    return ExactRule(state, row, columns, np.zeros_like(a.shift), "other", largest)


def _multiplied(a: Shadow, b: Shadow, joined: tuple[Array, Array, Array]) -> ExactRule:
    if a.kind == "constant" or b.kind == "constant":
        by, other = (a, b) if a.kind == "constant" else (b, a)
        shift = -(a.exact * b.exact) if other.kind == "constant" else other.shift
        if other.kind in LINEAR - {"constant"}:
            shift = other.shift * by.exact
        return ExactRule(*joined, shift, other.kind, np.multiply)
    kinds = (a.kind, b.kind)
    kind: Kind = "other"
    if "factor" in kinds and set(kinds) <= POWERS:
        rescaled = a if b.kind == "factor" else b
        kind, joined = rescaled.kind, (*joined[:2], rescaled.columns)
    elif set(kinds) == {"exponential", "reciprocal"}:
        kind = "quotient"
    return _product(a, b, joined, kind, a.shift + b.shift, np.multiply)


def _divided(a: Shadow, b: Shadow, joined: tuple[Array, Array, Array]) -> ExactRule:
    if b.kind == "constant":
        shift = -(a.exact / b.exact) if a.kind == "constant" else a.shift / b.exact if a.kind in LINEAR else a.shift
        return ExactRule(*joined, shift, a.kind, np.divide)
    kind: Kind = "other"
    if b.kind in POWERS and a.kind in POWERS | {"constant"}:
        kind = "reciprocal" if a.kind == "constant" else "quotient" if a.kind == "exponential" else "other"
    return _product(a, b, joined, kind, (0 if a.kind == "constant" else a.shift) - b.shift, np.divide)


def _product(
    a: Shadow, b: Shadow, joined: tuple[Array, Array, Array], kind: Kind, shift: Array, compute: Any
) -> ExactRule:
    """A product or a quotient of exponentials. A probability has no shift: what is left of one is taken away."""
    if kind != "quotient":
        return ExactRule(*joined, shift if kind != "other" else np.zeros_like(a.shift), kind, compute)
    left = np.where(np.isfinite(shift) & (a.exact != 0), shift, 0)
    weight = np.exp(left)
    note = _unequal(np.where(joined[0] == DATA, left, 0), b.shift)
    return ExactRule(*joined, np.zeros_like(a.shift), kind, lambda x, y: compute(x, y) * weight, note)


def _unequal(away: Array, shift: Array) -> str:
    """A note where exponentials below different maxima meet."""
    far = np.abs(away)
    size = np.where(np.isfinite(shift), np.abs(shift), 0).max(initial=0)
    if far.max(initial=0) <= _NEARLY * (1 + size):
        return ""
    return f"exponentials below maxima that are {float(far.max()):.6g} apart meet: one was not rescaled"


def _united(columns: Array, held: Array, axis: int) -> Array:
    """The sets of columns along an axis, one bit for each column."""
    columns, held = np.moveaxis(columns, axis, -1), np.moveaxis(held, axis, -1)
    sets = np.empty(columns.shape[:-1], dtype=object)
    for index in np.ndindex(sets.shape):
        sets[index] = set_of(columns[index][held[index]])
    return sets
