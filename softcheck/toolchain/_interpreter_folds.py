"""Reductions and scans for Triton's interpreter, as trees over whole arrays.

Triton's own reduce as NumPy does: serially along the first axis of a tile and for a user's combining function, and in
an order that depends on the processor's vectors. They raise errors where a GPU has none (``argmax`` of NaN), and treat
bfloat16's bits as integers. A tree of halves adds each number at most log2 n times, less than docs/bounds.md#sums
allows, in an order that is the same everywhere. It pairs elements as the lanes of a warp do, and combines each pair in
the order for which the language's own combining functions are written, so that their results for NaN and ties show.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray

from softcheck.calling.unable import causes

Arrays = tuple[NDArray[Any], ...]
Combine = Callable[[Arrays, Arrays], Arrays]

together = False
"""True while a combining function is tried on whole arrays. It must then not ask an array whether it is true."""


class _OneByOneError(Exception):
    """A combining function asks whether a value is true: it can only be called on one element after the other."""


def truth(data: NDArray[Any]) -> bool:
    """Returns the truth of a tensor in a condition.

    Like Triton's interpreter, it takes any tensor that is no scalar for true.
    """
    if data.size == 1:
        return bool(data.item())
    if together:
        raise _OneByOneError
    return True


def install(interpreter: Any) -> None:
    """Puts the trees in place of the interpreter's own reductions and scans."""

    def reduce(self: Any, inputs: Sequence[Any]) -> list[Any]:
        arrays, axis = [arg.handle.data for arg in inputs], _plain(self.axis)
        ndim = arrays[0].ndim
        if axis is None:
            arrays = [data.reshape(-1) for data in arrays]
        rows = tuple(np.moveaxis(data, axis or 0, 0) for data in arrays)
        found = _reduced(rows, _combination(interpreter, self.combine_fn, inputs))
        if self.keep_dims:
            found = tuple(data.reshape((1,) * ndim) if axis is None else np.expand_dims(data, axis) for data in found)
        return [self.to_tensor(data, arg.dtype) for data, arg in zip(found, inputs, strict=True)]

    def scan(self: Any, inputs: Sequence[Any]) -> list[Any]:
        axis = _plain(self.axis)
        rows = tuple(np.moveaxis(arg.handle.data, axis, 0) for arg in inputs)
        combine = _combination(interpreter, self.combine_fn, inputs)
        found = _scanned(tuple(data[::-1] for data in rows), combine) if self.reverse else _scanned(rows, combine)
        ordered = [np.moveaxis(data[::-1] if self.reverse else data, 0, axis) for data in found]
        # Triton's own memory operations read arrays as if they were packed.
        return [
            self.to_tensor(np.ascontiguousarray(data), arg.dtype) for data, arg in zip(ordered, inputs, strict=True)
        ]

    interpreter.ReduceOps.apply_impl = reduce
    interpreter.ScanOps.apply_impl = scan


def _plain(axis: Any) -> Any:
    return axis.value if isinstance(axis, tl.constexpr) else axis


def _reduced(rows: Arrays, combine: Combine) -> Arrays:
    """Combines along the first axis, the first half with the second, until one is left.

    The axis's length is a power of two.
    """
    while (length := rows[0].shape[0]) > 1:
        half = length // 2
        rows = combine(tuple(data[:half] for data in rows), tuple(data[half:] for data in rows))
    return tuple(data[0] for data in rows)


def _scanned(rows: Arrays, combine: Combine) -> Arrays:
    """Combines each place along the first axis with all before it, whose distances double (Hillis and Steele)."""
    length, step = rows[0].shape[0], 1
    while step < length:
        # All places take part, since the language knows powers of two alone; the first ones keep what they have.
        before = tuple(np.roll(data, step, axis=0) for data in rows)
        combined = combine(before, rows)
        rows = tuple(np.concatenate([old[:step], new[step:]]) for old, new in zip(rows, combined, strict=True))
        step *= 2
    return rows


def _combination(interpreter: Any, function: Any, inputs: Sequence[Any]) -> Combine:
    """A combining function of tensors as one of arrays."""
    types = [arg.dtype for arg in inputs]
    builder, handle = interpreter.interpreter_builder, interpreter.TensorHandle
    native = _native(builder, function, types[0])
    if native is not None:

        def directly(a: Arrays, b: Arrays) -> Arrays:
            return (native(handle(a[0], types[0]), handle(b[0], types[0])).data,)

        return directly

    semantic = interpreter.interpreter_semantic
    call = function.rewrite() if hasattr(function, "rewrite") else function

    def tensor(data: NDArray[Any], dtype: Any) -> Any:
        shaped = data.shape and tl.block_type(dtype, list(data.shape))
        return tl.tensor(handle(data if data.shape else data.reshape(1), dtype), shaped or dtype)

    def apply(a: Arrays, b: Arrays) -> Arrays:
        operands = [tensor(data, dtype) for data, dtype in zip((*a, *b), [*types, *types], strict=True)]
        results = call(*operands)
        results = results if isinstance(results, tuple | tl.tuple) else (results,)
        cast = [semantic.cast(semantic.to_tensor(r), dtype) for r, dtype in zip(results, types, strict=True)]
        return tuple(
            np.broadcast_to(
                r.handle.data.reshape(old.shape) if r.handle.data.size == old.size else r.handle.data, old.shape
            )
            for r, old in zip(cast, a, strict=True)
        )

    def combine(a: Arrays, b: Arrays) -> Arrays:
        try:
            with trying():
                return apply(a, b)
        except Exception as error:
            if not asked_for_truth(error):
                raise
        found = tuple(np.empty_like(data) for data in a)
        for index in np.ndindex(a[0].shape):
            single = apply(tuple(np.asarray(d[index]) for d in a), tuple(np.asarray(d[index]) for d in b))
            for data, value in zip(found, single, strict=True):
                data[index] = value
        return found

    return combine


def _native(builder: Any, function: Any, dtype: Any) -> Any:
    """Returns the operation that one of the language's own combining functions stands for; None for other functions."""
    standard = tl.standard
    if function is standard._sum_combine:  # noqa: SLF001
        return builder.create_fadd if dtype.is_floating() else builder.create_add
    # Without propagate_nan, tl.maximum and tl.minimum leave NaN out (Triton's documentation of tl.maximum).
    if function is standard._elementwise_max:  # noqa: SLF001
        return builder.create_maxnumf if dtype.is_floating() else builder.create_maxsi
    if function is standard._elementwise_min:  # noqa: SLF001
        return builder.create_minnumf if dtype.is_floating() else builder.create_minsi
    return None


@contextmanager
def trying() -> Iterator[None]:
    """Raises an exception inside the block where a combining function asks whether a tensor is true."""
    global together  # noqa: PLW0603 - the interpreter runs one program at a time
    before, together = together, True
    try:
        yield
    finally:
        together = before


def asked_for_truth(error: BaseException) -> bool:
    """True if ``_OneByOneError`` is behind an exception: Triton wraps one that is raised in a function, once per call."""
    return any(isinstance(each, _OneByOneError) for each in causes(error))
