"""Types and shapes that Triton's interpreter works out for every tensor, kept for the next.

Nothing is computed otherwise: a third of an interpreted kernel's time goes into names and shapes of types that a kernel
has made before. Types with the same name are equal.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import triton.language as tl

_OF_ONE_TENSOR = frozenset({"handle", "type", "dtype"})

_KEPT = frozenset({"fp32", "fp64", "int32", "int64"})
"""Types of two operands with which every operation of two computes, so that neither is cast."""


def install(interpreter: Any) -> None:
    """Makes the interpreter keep NumPy's types, block types, and the shapes of tensors, and leave out work without an effect."""
    interpreter._get_np_dtype = _by_name(interpreter._get_np_dtype)  # noqa: SLF001
    tl.core.block_type.__init__ = _kept_blocks(tl.core.block_type.__init__)
    tl.core.tensor.__init__ = _kept_shapes(tl.core.tensor.__init__)
    builder, semantic = interpreter.interpreter_builder, type(interpreter.interpreter_semantic)
    if not builder.options.debug:
        # Sums and products of integers are else made again in 64 bits, for an assertion that is made in debugging alone.
        builder.options = replace(builder.options, sanitize_overflow=False)
    semantic.binary_op_type_checking_impl = _unless_of_one_type(semantic.binary_op_type_checking_impl)


def _by_name(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    known: dict[str, Any] = {}

    def numpy_type(triton_type: Any) -> Any:
        name = triton_type.name
        found = known.get(name)
        if found is None:
            found = known[name] = original(triton_type)
        return found

    return numpy_type


def _kept_blocks(original: Callable[..., None]) -> Callable[..., None]:
    known: dict[Any, dict[str, Any]] = {}

    def initialise(block: Any, element_ty: Any, shape: Any) -> None:
        key = (element_ty.name, *shape)
        kept = known.get(key)
        if kept is not None:
            block.__dict__.update(kept)
            return
        original(block, element_ty, shape)
        if all(type(size) is int for size in shape):
            known[key] = dict(vars(block))

    return initialise


def _kept_shapes(original: Callable[..., None]) -> Callable[..., None]:
    known: dict[str, dict[str, Any]] = {}

    def initialise(tensor: Any, handle: Any, type: Any) -> None:  # noqa: A002 - Triton passes it by this name
        kept = known.get(type.name)
        if kept is None:
            original(tensor, handle, type)
            known[type.name] = {name: value for name, value in vars(tensor).items() if name not in _OF_ONE_TENSOR}
            return
        tensor.__dict__.update(kept)
        tensor.handle, tensor.type, tensor.dtype = handle, type, type.scalar

    return initialise


def _unless_of_one_type(original: Callable[..., Any]) -> Callable[..., Any]:
    def checked(semantic: Any, lhs: Any, rhs: Any, *options: Any, **named: Any) -> Any:
        if isinstance(lhs, tl.tensor) and isinstance(rhs, tl.tensor):
            name = lhs.dtype.name
            if name in _KEPT and name == rhs.dtype.name:
                return semantic.broadcast_impl_value(lhs, rhs)
        return original(semantic, lhs, rhs, *options, **named)

    return checked
