"""Operations that make no new number: constants, arguments and moved lanes. Their shadows come along."""

from operator import itemgetter
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from softcheck.tracing import shadow
from softcheck.tracing.operations import SHADOW, is_float, shadow_of
from softcheck.tracing.shadow import Shadow, Wide, as_sets


def constant(original: Any) -> Any:
    """A constant of the kernel's source, exact as it is written."""

    def get(builder: Any, value: Any) -> Any:
        handle = original(builder, value)
        _write(handle, value)
        return handle

    return get


def argument(original: Any) -> Any:
    """A number that is given to a kernel, exact as Python has it."""

    def convert(argument: Any) -> Any:
        found = original(argument)
        if isinstance(argument, float):
            _write(found.handle, argument)
        return found

    return convert


def _write(handle: Any, value: float) -> None:
    setattr(handle, SHADOW, shadow.constant(np.full(handle.data.shape, value, dtype=Wide)))


def move(original: Any) -> Any:
    """An operation that moves lanes without a look at them. The shadows follow lanes that hold their own numbers."""

    def move(builder: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(builder, *args, **kwargs)
        moved = [arg for arg in args if isinstance(arg, interpreter.TensorHandle) and is_float(arg)]
        if not any(hasattr(handle, SHADOW) for handle in moved):
            return result
        numbered, shadows, count = {}, [], 0
        for handle in moved:
            lanes = np.arange(count, count + handle.data.size, dtype=np.int64).reshape(handle.data.shape)
            numbered[id(handle)] = interpreter.TensorHandle(lanes, tl.int64)
            shadows.append(shadow_of(handle).each(np.ravel))
            count += handle.data.size
        place = original(builder, *(numbered.get(id(arg), arg) for arg in args), **kwargs)
        several = isinstance(result, tuple)
        for one, lanes in zip(result if several else (result,), place if several else (place,), strict=True):
            setattr(one, SHADOW, _together(shadows).each(itemgetter(lanes.data)))
        return result

    return move


def _together(shadows: list[Shadow]) -> Shadow:
    if len(shadows) == 1:
        return shadows[0]
    first = next((s for s in shadows if s.kind != "constant"), shadows[0])
    sets = [as_sets(s.columns) for s in shadows] if len({s.columns.dtype for s in shadows}) > 1 else None
    joined = {name: np.concatenate([getattr(s, name) for s in shadows]) for name in ("exact", "state", "row", "shift")}
    return Shadow(**joined, columns=np.concatenate(sets or [s.columns for s in shadows]), kind=first.kind)
