"""The exact results of a reduction: by rule for the language's own, in the same tree for a function of the kernel's."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from softcheck.toolchain._interpreter_folds import trying
from softcheck.tracing.model import Phase
from softcheck.tracing.operations import SHADOW, Followed, is_float, numbers, reduced, shadow_of


def folded(reducer: Any, inputs: Sequence[Any]) -> list[Followed | None]:
    """Computes a reduction of each input; None for an input of integers.

    ``reducer`` is Triton's: an axis, a combining function, and whether the axis is kept.
    """
    axis = reducer.axis.value if isinstance(reducer.axis, tl.constexpr) else reducer.axis
    ndim = inputs[0].handle.data.ndim
    handles = [_shaped(arg.handle, axis) for arg in inputs]
    found: list[Followed | None]
    if all(is_float(handle) for handle in handles[:1]) and (one := reduced(reducer.combine_fn, handles[0], axis or 0)):
        found = [one, *(None for _ in handles[1:])]
    else:
        found = _in_a_tree(reducer.combine_fn, handles, axis or 0)
    shape = _result_shape(inputs[0].handle.data.shape, axis, keeps=bool(reducer.keep_dims), ndim=ndim)
    return [_reshaped(one, shape) for one in found]


def _shaped(handle: Any, axis: int | None) -> Any:
    return handle if axis is not None else _part(handle, lambda data: data.reshape(-1))


def _part(handle: Any, take: Any) -> Any:
    """Some lanes of a handle, or all in another shape."""
    part = interpreter.TensorHandle(take(handle.data), handle.dtype)
    if hasattr(handle, SHADOW):
        setattr(part, SHADOW, shadow_of(handle).each(take))
    return part


def _result_shape(shape: tuple[int, ...], axis: int | None, *, keeps: bool, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return (1,) * ndim if keeps else (1,)
    left = [1 if i == axis % ndim else size for i, size in enumerate(shape) if keeps or i != axis % ndim]
    return tuple(left) or (1,)


def _reshaped(followed: Followed | None, shape: tuple[int, ...]) -> Followed | None:
    if followed is None:
        return None
    shadow = followed.shadow.each(lambda data: data.reshape(shape))
    return followed._replace(shadow=shadow, expected=np.reshape(followed.expected, shape))


def _in_a_tree(function: Any, handles: Sequence[Any], axis: int) -> list[Followed | None]:
    """Combines halves, as ``toolchain._interpreter_folds`` does, with the shadows that the operations give.

    The combining function has no exact meaning but its operations', so its result adds no error of its own.
    """
    call = function.rewrite() if hasattr(function, "rewrite") else function
    rows = [_part(handle, lambda data: np.moveaxis(data, axis, 0)) for handle in handles]
    with trying():
        while (length := rows[0].data.shape[0]) > 1:
            halves = slice(length // 2), slice(length // 2, None)
            operands = [_part(row, lambda data, half=half: data[half]) for half in halves for row in rows]
            results = call(*map(_tensor, operands))
            rows = [result.handle for result in (results if isinstance(results, tuple | tl.tuple) else (results,))]
    return [_as_followed(row) if is_float(row) else None for row in rows]


def _as_followed(handle: Any) -> Followed:
    shadow = shadow_of(handle)
    phases: dict[str, Phase] = {"maximum": "block_maximum", "sum": "block_sum"}
    return Followed(phases.get(shadow.kind, "other"), "reduce", shadow, numbers(handle))


def _tensor(handle: Any) -> Any:
    dtype = handle.dtype.scalar
    return tl.tensor(handle, tl.block_type(dtype, list(handle.data.shape)))
