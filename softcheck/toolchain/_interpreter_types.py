"""Types, shapes and ways to bring two shapes together that Triton's interpreter works out for every tensor, kept for the next.

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
    semantic.broadcast_impl_value = _by_plan(semantic.broadcast_impl_value)
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


Step = tuple[str, Any]
"""A way to change an operand's shape, ``splat``, ``expand`` or ``broadcast``, and the type that this gives."""


def _by_plan(original: Callable[..., Any]) -> Callable[..., Any]:
    """Brings two operands to one shape, by steps that are worked out once for two types."""
    plans: dict[tuple[str, str], tuple[list[Step], list[Step]] | None] = {}

    def broadcast(semantic: Any, lhs: Any, rhs: Any) -> Any:
        one, other = lhs.type, rhs.type
        if one is other:
            return lhs, rhs
        names = one.name, other.name
        if names not in plans:
            plans[names] = _plan(one, other)
        plan = plans[names]
        if plan is None:
            return original(semantic, lhs, rhs)
        return _changed(semantic, lhs, plan[0]), _changed(semantic, rhs, plan[1])

    return broadcast


def _plan(one: Any, other: Any) -> tuple[list[Step], list[Step]] | None:
    """Returns the steps of both operands; None where their shapes don't fit together, which Triton says best."""
    if one.is_block() != other.is_block():
        block, scalar = (one, other) if one.is_block() else (other, one)
        splat = [("splat", block.with_element_ty(scalar.scalar))]
        return ([], splat) if one.is_block() else (splat, [])
    if not one.is_block():
        return [], []
    shapes = list(one.shape), list(other.shape)
    rank = max(map(len, shapes))
    padded = [[1] * (rank - len(shape)) + shape for shape in shapes]
    if any(left != right and 1 not in (left, right) for left, right in zip(*padded, strict=True)):
        return None
    whole = [max(left, right) for left, right in zip(*padded, strict=True)]
    steps: tuple[list[Step], list[Step]] = ([], [])
    for found, shape, of_rank, element in zip(steps, shapes, padded, (one.scalar, other.scalar), strict=True):
        added = range(1, rank - len(shape) + 1)
        found.extend(("expand", tl.block_type(element, [1] * more + shape)) for more in added)
        if of_rank != whole:
            found.append(("broadcast", tl.block_type(element, whole)))
    return steps


def _changed(semantic: Any, tensor: Any, steps: list[Step]) -> Any:
    builder = semantic.builder
    for name, type_ in steps:
        if name == "splat":
            handle = builder.create_splat(type_.to_ir(builder), tensor.handle)
        elif name == "expand":
            handle = builder.create_expand_dims(tensor.handle, 0)
        else:
            handle = builder.create_broadcast(tensor.handle, list(type_.shape))
        # Triton 3.6 has no make_tensor.
        tensor = semantic.tensor(handle, type_)
    return tensor


def _unless_of_one_type(original: Callable[..., Any]) -> Callable[..., Any]:
    def checked(semantic: Any, lhs: Any, rhs: Any, *options: Any, **named: Any) -> Any:
        if isinstance(lhs, tl.tensor) and isinstance(rhs, tl.tensor):
            name = lhs.dtype.name
            if name in _KEPT and name == rhs.dtype.name:
                return semantic.broadcast_impl_value(lhs, rhs)
        return original(semantic, lhs, rhs, *options, **named)

    return checked
