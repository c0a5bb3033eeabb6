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
    in_words,
    union_of,
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
        shift = np.broadcast_to(np.asarray(self.shift, Wide), self.state.shape)
        return Shadow(values, self.state, self.row, self.columns, shift, self.kind)


_NO_SHIFT = np.zeros((), Wide)


def unary(name: str, a: Shadow) -> ExactRule:
    """The rule of a function of one tensor: ``neg``, ``exp``, ``exp2``, ``log``, ``log2``, or another one of numpy."""
    compute: Callable[[Array], Array] = _UNARY.get(name) or getattr(np, name)
    kind: Kind = "other"
    shift = _NO_SHIFT
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
    """The rule of an operation on two tensors, by its name here; those that begin with f leave NaN out."""
    if name == "add":
        return _added(a, b)
    if name in {"max", "fmax"}:
        return _larger(a, b, np.fmax if name == "fmax" else np.maximum)
    if name in {"mul", "div"}:
        return _product(a, b, divides=name == "div")
    kind: Kind = "other"
    if name == "sub" and b.kind in {"constant", "maximum"} and a.kind in LINEAR:
        kind = "shifted" if a.kind in {"logit", "shifted"} else a.kind if b.kind == "constant" else "maximum"
    return ExactRule(*_joined(a, b), a.shift - b.shift if kind != "other" else _NO_SHIFT, kind, _OTHERS[name])


_OTHERS: dict[str, Callable[..., Array]] = {
    "sub": np.subtract,
    "min": np.minimum,
    "fmin": np.fmin,
    "fmod": np.fmod,
}


def reduction(name: str, a: Shadow, axis: int) -> ExactRule:
    """The rule of ``sum``, ``max`` or ``fmax`` along an axis; lanes of another row than the first with data don't belong into it."""
    held = a.state == DATA
    first = np.expand_dims(held.argmax(axis=axis), axis)
    has_data = held.any(axis=axis)
    row = np.where(has_data, np.take_along_axis(a.row, first, axis).squeeze(axis), -1)
    foreign = held & (a.row != np.expand_dims(row, axis))
    held = held & ~foreign
    # Constants take part, such as lanes of an accumulator that saw no column.
    taking = held | (a.state == CONSTANT)
    state = np.where(has_data, DATA, np.where(taking.any(axis=axis), CONSTANT, ABSENT)).astype(np.int8)
    columns = np.asarray(np.bitwise_or.reduce(np.where(held, a.columns, 0), axis=axis), dtype=object)
    note = "lanes of another row are read, which the exact value leaves out" if foreign.any() else ""
    kind: Kind = "other"
    shift = _NO_SHIFT
    if name != "sum":
        highest = np.fmax if name == "fmax" else np.maximum

        def largest(values: Array) -> Array:
            found: Array = highest.reduce(np.where(taking, values, -np.inf), axis=axis)
            return found

        if a.kind in {"constant", "logit", "maximum"}:
            kind, shift = ("constant" if a.kind == "constant" else "maximum"), -largest(a.exact)
        return ExactRule(state, row, columns, shift, kind, largest, note)
    weight = np.ones((), Wide)
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
    """The rule of ``tl.where``: each lane means what the side means that the kernel took, and a masked lane stays one under a constant."""

    def chosen(x: Array, y: Array) -> Array:
        return np.where(condition, x, y)

    state, shift = chosen(a.state, b.state), chosen(a.shift, b.shift)
    state = np.where((state == CONSTANT) & (chosen(b.state, a.state) == ABSENT), ABSENT, state).astype(np.int8)
    kind = a.kind if b.kind in {a.kind, "constant"} else b.kind if a.kind == "constant" else "other"
    if kind in POWERS:
        # A number in a power's place lies below no maximum.
        shift = np.where(state == CONSTANT, np.nan, shift)
    return ExactRule(state, chosen(a.row, b.row), chosen(a.columns, b.columns), shift, kind, chosen)


def _joined(a: Shadow, b: Shadow) -> tuple[Array, Array, Array]:
    """State, row and columns of lanes that depend on both operands, and are absent if either is."""
    state = np.maximum(a.state, b.state)
    row = np.where(a.state == CONSTANT, b.row, a.row)
    if not (a.has_data and b.has_data):
        return state, row, a.columns if a.has_data else b.columns
    both = a.columns | b.columns
    for one, other in ((a, b), (b, a)):
        # A maximum or a sum of the whole row stands beside each column; the column is what tells the lanes apart.
        if other.kind in _SHARED and (one.kind not in _SHARED or (both == other.columns).all()):
            return state, row, one.columns
    return state, row, both


def _merged(a: Shadow, b: Shadow, *, skips: bool = True) -> tuple[tuple[Array, Array], Array, Array]:
    """Returns where each operand is a masked lane beside data of the other, which is kept as it is, and the state and the row."""
    left_out = ((a.state == ABSENT) & (b.state == DATA) & skips, (b.state == ABSENT) & (a.state == DATA) & skips)
    state = np.where(left_out[0] | left_out[1], DATA, np.maximum(a.state, b.state)).astype(np.int8)
    return left_out, state, np.where(a.state == DATA, a.row, b.row)


def _added(a: Shadow, b: Shadow) -> ExactRule:
    """A sum; a masked lane beside an accumulator adds nothing."""
    if a.kind in LINEAR and b.kind in LINEAR:
        kinds = {a.kind, b.kind} - {"constant"}
        kind: Kind = "constant"
        if kinds:
            logits = kinds & {"logit", "shifted"}
            kind = "maximum" if not logits else "other" if {a.kind, b.kind} <= {"logit", "shifted"} else "shifted"
        return ExactRule(*_joined(a, b), a.shift + b.shift if kind != "other" else _NO_SHIFT, kind, np.add)
    adds_up = a.kind == b.kind or {a.kind, b.kind} <= POWERS
    left_out, state, row = _merged(a, b, skips=adds_up)
    a_set, b_set = (np.where((s.state == ABSENT) & adds_up, 0, s.columns) for s in (a, b))
    note, shift, kind = "", _NO_SHIFT, "other"
    weights: tuple[Array, Array] = np.ones((), Wide), np.ones((), Wide)
    if a.kind in POWERS | {"constant"} and b.kind in POWERS | {"constant"}:
        # A constant, or a 0 that an accumulator starts with, has no shift of its own.
        counts = [(s.state == DATA) & (s.exact != 0) & np.isfinite(s.shift) for s in (a, b)]
        shift = np.maximum(*(np.where(c, s.shift, -np.inf) for c, s in zip(counts, (a, b), strict=True)))
        shift = np.where(np.isfinite(shift), shift, 0)
        away = [np.where(c, s.shift - shift, 0) for c, s in zip(counts, (a, b), strict=True)]
        weights, kind = (np.exp(away[0]), np.exp(away[1])), "sum"
        note = _unequal(np.minimum(*away), shift)
        if not note and {a.kind, b.kind} <= {"exponential", "sum"} and (again := union_of(a_set & b_set)):
            note = f"{in_words(again)} counted twice"

    def total(x: Array, y: Array) -> Array:
        found: Array = np.where(left_out[0], 0, x * weights[0]) + np.where(left_out[1], 0, y * weights[1])
        return found

    return ExactRule(state, row, a_set | b_set, shift, kind, total, note)


def _larger(a: Shadow, b: Shadow, highest: Any) -> ExactRule:
    """The larger of two; a masked lane beside an accumulator leaves the accumulator as it is."""
    left_out, state, row = _merged(a, b)

    def largest(x: Array, y: Array) -> Array:
        found: Array = highest(np.where(left_out[0], -np.inf, x), np.where(left_out[1], -np.inf, y))
        return found

    is_maximum = {a.kind, b.kind} <= {"constant", "logit", "maximum"}
    kind: Kind = "maximum" if is_maximum else "other"
    shift = -largest(a.exact, b.exact) if is_maximum else _NO_SHIFT
    return ExactRule(state, row, a.columns | b.columns, shift, kind, largest)


def _product(a: Shadow, b: Shadow, *, divides: bool) -> ExactRule:
    """A product or a quotient. A probability has no shift: what is left of one is taken away."""
    compute: Any = np.divide if divides else np.multiply
    joined = _joined(a, b)
    if b.kind == "constant" or (a.kind == "constant" and not divides):
        by, other = (b, a) if b.kind == "constant" else (a, b)
        shift = other.shift
        if other.kind == "constant":
            shift = -compute(a.exact, b.exact)
        elif other.kind in LINEAR:
            shift = compute(other.shift, by.exact)
        return ExactRule(*joined, shift, other.kind, compute)
    kinds = (a.kind, b.kind)
    kind: Kind = "other"
    if divides and b.kind in POWERS:
        kind = "reciprocal" if a.kind == "constant" else "quotient" if a.kind == "exponential" else "other"
    elif not divides and "factor" in kinds and POWERS.issuperset(kinds):
        rescaled = a if b.kind == "factor" else b
        kind, joined = rescaled.kind, (*joined[:2], rescaled.columns)
    elif not divides and set(kinds) == {"exponential", "reciprocal"}:
        kind = "quotient"
    left = (0 if a.kind == "constant" else a.shift) - b.shift if divides else a.shift + b.shift
    if kind != "quotient":
        return ExactRule(*joined, left if kind != "other" else _NO_SHIFT, kind, compute)
    left = np.where(np.isfinite(left) & (a.exact != 0), left, 0)
    weight = np.exp(left)
    note = _unequal(np.where(joined[0] == DATA, left, 0), b.shift)
    return ExactRule(*joined, _NO_SHIFT, kind, lambda x, y: compute(x, y) * weight, note)


def _unequal(away: Array, shift: Array) -> str:
    """A note where exponentials below different maxima meet."""
    far = np.abs(away)
    size = np.where(np.isfinite(shift), np.abs(shift), 0).max(initial=0)
    if far.max(initial=0) <= _NEARLY * (1 + size):
        return ""
    return f"exponentials below maxima that are {float(far.max()):.6g} apart meet: one was not rescaled"
