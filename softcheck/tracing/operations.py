"""Exact results of the operations of Triton's interpreter: for each a rule and its part in a softmax; moved lanes; and reductions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from softcheck.toolchain._interpreter_folds import trying
from softcheck.toolchain._interpreter_numbers import decoded, is_known
from softcheck.tracing import rules
from softcheck.tracing.model import Phase
from softcheck.tracing.rules import ExactRule
from softcheck.tracing.shadow import ABSENT, DATA, LINEAR, PARTS, Array, Kind, Shadow, Wide, constant, restarted

SHADOW = "softcheck_shadow"
"""Attribute of an interpreter's handle that holds its shadow."""


def _named(rules: dict[str, str]) -> dict[str, str]:
    """Rules by the names of operations, from the names by rule."""
    return {name: rule for rule, names in rules.items() for name in names.split()}


_UNARY = _named(
    {
        **{name: name for name in ("exp2", "sqrt", "rsqrt", "floor", "ceil")},
        "neg": "fneg",
        "abs": "fabs",
        "exp": "exp fast_exp",
        "log": "log fast_log",
        "log2": "log2 fast_log2",
        "sqrt": "sqrt precise_sqrt",
    }
)
_BINARY = _named(
    {
        "add": "fadd",
        "sub": "fsub",
        "mul": "fmul",
        "fmod": "frem",
        "max": "maximumf",
        "min": "minimumf",
        "div": "fdiv precise_divf approx_divf fast_fdivide fdiv_rn ddiv_rn",
        "fmax": "maxnumf fmax",
        "fmin": "minnumf fmin",
    }
)
_TERNARY = {"fma": ("mul", "add"), "clampf": ("max", "min")}
"""Operations on three operands, as two operations on two."""
_CASTS = ("fp_ext", "fp_trunc", "fp_to_fp")


@dataclass(frozen=True)
class Followed:
    """A followed operation: its result's exact values, and those that its operands' own values would give."""

    phase: Phase | None
    """None if the operation only moves or chooses values."""
    name: str
    shadow: Shadow
    expected: Array
    note: str = ""
    constant: Array | float = 0.0
    """Size of a constant that is added: its rounding counts in the constant's own ULPs, however much of it cancels."""
    is_followed: bool = True
    """False if no rule knows the operation, so that its result counts as exact."""


def numbers(handle: Any) -> Array:
    """The numbers of a handle of floats, in ``longdouble``."""
    return np.asarray(decoded(handle.data, handle.dtype.scalar)).astype(Wide)


def shadow_of(handle: Any) -> Shadow:
    """The shadow of a handle of floats; a handle that carries none is a constant."""
    found: Shadow | None = getattr(handle, SHADOW, None)
    return constant(numbers(handle)) if found is None else found


def is_float(handle: Any) -> bool:
    """True for a handle of floating-point numbers that can be read."""
    return hasattr(handle, "data") and hasattr(handle, "dtype") and is_known(handle.dtype.scalar)


def follow(name: str, handles: Sequence[Any], result: Any) -> Followed | None:
    """The result of an operation, by the builder's or libdevice's name, on handles of which some carry shadows; None if it is no float."""
    if not is_float(result):
        return None
    if name in _CASTS:
        return _cast(handles[0], result)
    if name == "select":
        condition, *handles = handles
        shadows = _alike(handles, result)
        chosen = rules.selected(np.broadcast_to(condition.data, result.data.shape), *shadows)
        return Followed(None, name, chosen.result(*(s.exact for s in shadows)), numbers(result))
    if not all(map(is_float, handles)) or name not in {*_UNARY, *_BINARY, *_TERNARY}:
        return unfollowed(name, handles, result)
    shadows = _alike(handles, result)
    values = [np.broadcast_to(numbers(handle), result.data.shape) for handle in handles]
    if name in _UNARY:
        return _ruled(_UNARY[name], rules.unary(_UNARY[name], *shadows), shadows, values)
    last = _BINARY.get(name, "")
    if name in _TERNARY:
        first, last = _TERNARY[name]
        rule = rules.binary(first, *shadows[:2])
        shadows = [rule.result(shadows[0].exact, shadows[1].exact), shadows[2]]
        values = [rule.compute(*values[:2]), values[2]]
    return _ruled(last, rules.binary(last, *shadows), shadows, values)


def unfollowed(name: str, handles: Sequence[Any], result: Any) -> Followed | None:
    """The result of an operation that no rule follows, on handles of which some carry shadows; None if it is no float."""
    if not is_float(result):
        return None
    shadow = restarted(numbers(result), [shadow_of(handle) for handle in handles if is_float(handle)])
    return Followed("other", name, shadow, numbers(result), is_followed=False)


def _ruled(name: str, rule: ExactRule, shadows: list[Shadow], values: list[Array]) -> Followed:
    shadow = rule.result(*(s.exact for s in shadows))
    # The rounding of a constant belongs to the operation that takes it.
    values = [s.exact if s.kind == "constant" else value for s, value in zip(shadows, values, strict=True)]
    phase = _phase_of(name, tuple(s.kind for s in shadows), shadow.kind)
    added = [np.abs(s.exact) for s in shadows if s.kind == "constant" and name in {"add", "sub"}]
    return Followed(phase, name, shadow, rule.compute(*values), rule.note, max(added, default=0.0, key=np.max))


def _alike(handles: Sequence[Any], result: Any) -> list[Shadow]:
    """The shadows of operands, each of the result's shape."""
    shape = result.data.shape
    return [shadow_of(handle).each(lambda data: np.broadcast_to(data, shape)) for handle in handles]


def _cast(source: Any, result: Any) -> Followed:
    """A conversion between floats, which is a step of its own only where it rounds."""
    narrows = result.dtype.scalar.fp_mantissa_width < source.dtype.scalar.fp_mantissa_width
    kept = numbers(source)
    return Followed("round" if narrows else None, result.dtype.scalar.name, shadow_of(source), kept)


def reduced(function: Any, handle: Any, axis: int) -> Followed | None:
    """The result of one of the language's own reductions along an axis; None for other combining functions."""
    name = _reduction(function)
    if name is None:
        return None
    shadow = shadow_of(handle)
    rule, values = rules.reduction(name, shadow, axis), numbers(handle)
    expected = rule.compute(values)
    phase: Phase = "block_sum" if name == "sum" else "block_maximum"
    counts = values != 0 if name == "sum" else values > np.expand_dims(expected, axis)
    enters = counts & (shadow.state == ABSENT) & np.expand_dims(rule.state == DATA, axis)
    masked = "masked lanes enter, which the exact value leaves out" if enters.any() else ""
    return Followed(phase, name, rule.result(shadow.exact), expected, rule.note or masked)


def _reduction(function: Any) -> str | None:
    standard = tl.standard
    if function is standard._sum_combine:  # noqa: SLF001
        return "sum"
    indexed = (standard._argmax_combine_tie_break_left, standard._argmax_combine_tie_break_fast)  # noqa: SLF001
    return "fmax" if function is standard._elementwise_max or function in indexed else None  # noqa: SLF001


def _phase_of(name: str, operands: tuple[Kind, ...], result: Kind) -> Phase:
    """The part that an elementwise operation plays, from the kinds of its operands and of its result."""
    is_product = name in {"mul", "div"}
    parts: tuple[tuple[bool, Phase], ...] = (
        (name in {"max", "fmax"} and result == "maximum", "running_maximum"),
        (name in {"log", "log2"}, "logarithm"),
        (name in {"exp", "exp2"}, "rescale" if result == "factor" else "exponential"),
        (result in {"quotient", "reciprocal"}, "quotient"),
        (result == "shifted" and not is_product, "shift"),
        (result == "maximum" and name == "sub", "rescale"),
        (result == "sum" and name == "add", "running_sum"),
        (is_product and "factor" in operands, "rescale"),
        (is_product and "constant" in operands and result in LINEAR, "scale"),
    )
    return next((part for holds, part in parts if holds), "other")


def with_constant(original: Any, builder: Any, value: Any) -> Any:
    """A constant of the kernel's source, exact as it is written."""
    handle = original(builder, value)
    _write(handle, value)
    return handle


def with_argument(original: Any, argument: Any) -> Any:
    """A number that is given to a kernel, exact as Python has it."""
    found = original(argument)
    if isinstance(argument, float):
        _write(found.handle, argument)
    return found


def _write(handle: Any, value: float) -> None:
    setattr(handle, SHADOW, constant(np.full(handle.data.shape, value, dtype=Wide)))


def with_moved_lanes(original: Any, builder: Any, *args: Any, **kwargs: Any) -> Any:
    """An operation that moves lanes without a look at them. The shadows follow lanes that hold their own numbers."""
    result = original(builder, *args, **kwargs)
    moved = [arg for arg in args if isinstance(arg, interpreter.TensorHandle) and is_float(arg)]
    if not any(hasattr(handle, SHADOW) for handle in moved):
        return result
    numbered, count = {}, 0
    for handle in moved:
        lanes = np.arange(count, count + handle.data.size, dtype=np.int64).reshape(handle.data.shape)
        numbered[id(handle)] = interpreter.TensorHandle(lanes, tl.int64)
        count += handle.data.size
    place = original(builder, *(numbered.get(id(arg), arg) for arg in args), **kwargs)
    shadows = [shadow_of(handle).each(np.ravel) for handle in moved]
    kind: Kind = next((shadow.kind for shadow in shadows if shadow.kind != "constant"), "constant")
    joined = {name: np.concatenate([getattr(shadow, name) for shadow in shadows]) for name in PARTS}
    several = isinstance(result, tuple)
    for one, lanes in zip(result if several else (result,), place if several else (place,), strict=True):
        setattr(one, SHADOW, Shadow(**joined, kind=kind).each(itemgetter(lanes.data)))
    return result


def folded(reducer: Any, inputs: Sequence[Any], shape: tuple[int, ...]) -> list[Followed | None]:
    """Computes Triton's reduction of each input, whose results have this shape; None for an input of integers."""
    axis = reducer.axis.value if isinstance(reducer.axis, tl.constexpr) else reducer.axis
    handles = [arg.handle if axis is not None else _part(arg.handle, np.ravel) for arg in inputs]
    found: list[Followed | None]
    if is_float(handles[0]) and (one := reduced(reducer.combine_fn, handles[0], axis or 0)):
        found = [one, *(None for _ in handles[1:])]
    else:
        found = _in_a_tree(reducer.combine_fn, handles, axis or 0)

    def shaped(data: Array) -> Array:
        return np.reshape(data, shape)

    return [
        None if each is None else replace(each, shadow=each.shadow.each(shaped), expected=shaped(each.expected))
        for each in found
    ]


def _part(handle: Any, take: Any) -> Any:
    """Some lanes of a handle, or all in another shape."""
    part = interpreter.TensorHandle(take(handle.data), handle.dtype)
    if hasattr(handle, SHADOW):
        setattr(part, SHADOW, shadow_of(handle).each(take))
    return part


def _in_a_tree(function: Any, handles: Sequence[Any], axis: int) -> list[Followed | None]:
    """Combines halves, as ``toolchain._interpreter_folds`` does, with the shadows that the operations give: the result adds no error of its own."""
    call = function.rewrite() if hasattr(function, "rewrite") else function
    rows = [_part(handle, lambda data: np.moveaxis(data, axis, 0)) for handle in handles]
    with trying():
        while (length := rows[0].data.shape[0]) > 1:
            halves = slice(length // 2), slice(length // 2, None)
            operands = [_part(row, lambda data, half=half: data[half]) for half in halves for row in rows]
            results = call(*map(_tensor, operands))
            rows = [result.handle for result in (results if isinstance(results, tuple | tl.tuple) else (results,))]
    phases: dict[str, Phase] = {"maximum": "block_maximum", "sum": "block_sum"}
    shadows = [shadow_of(row) if is_float(row) else None for row in rows]
    return [
        Followed(phases.get(shadow.kind, "other"), "reduce", shadow, numbers(row)) if shadow else None
        for shadow, row in zip(shadows, rows, strict=True)
    ]


def _tensor(handle: Any) -> Any:
    dtype = handle.dtype.scalar
    return tl.tensor(handle, tl.block_type(dtype, list(handle.data.shape)))
