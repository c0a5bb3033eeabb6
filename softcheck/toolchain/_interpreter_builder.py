"""Corrected operations on elements for the interpreter, where it differs from Triton's language or from PTX.

``install`` puts the methods of ``_Corrected`` into Triton's InterpreterBuilder. Operations that the class leaves alone
are right, or left to the language: masked-off lanes of a load without ``other`` are 0, and a division of integers by
zero gives 0.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import triton.language as tl

from softcheck.calling.unable import uninterpretable
from softcheck.toolchain._interpreter_numbers import (
    LIBDEVICE,
    decoded,
    encoded,
    exp,
    exp2,
    fused,
    is_known,
    once,
    to_integers,
    to_tf32,
)

_COMPARISONS = {np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal}

_DOT_PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
"""Precisions of a dot product that a GPU takes (Triton's documentation of ``tl.dot``)."""


def install(interpreter: Any) -> None:
    """Corrects the builder of Triton's ``runtime.interpreter``, and the instance that kernels use."""
    builder = interpreter.InterpreterBuilder
    _Corrected.handle = interpreter.TensorHandle
    _Corrected.ir = interpreter._ir  # noqa: SLF001
    _Corrected.memory = interpreter._interpreter  # noqa: SLF001
    _Corrected.numpy_type = staticmethod(interpreter._get_np_dtype)  # noqa: SLF001
    _Corrected.triton_rmw = builder.create_atomic_rmw
    _Corrected.triton_cas = builder.create_atomic_cas
    for name, method in vars(_Corrected).items():
        if not name.startswith("__") or name == "__getattr__":
            setattr(builder, name, method)
    interpreter._convert_float = _wrap_conversion(interpreter._convert_float)  # noqa: SLF001
    instance = interpreter.interpreter_builder
    instance.options = replace(instance.options, allowed_dot_input_precisions=_DOT_PRECISIONS)


def _wrap_conversion(original: Any) -> Callable[..., Any]:
    """Conversions between floats of any two types, given and returned as bits; Triton's own for what it alone knows."""

    def convert(values: Any, source: tl.dtype, target: tl.dtype, rounding_mode: Any) -> Any:
        if not (is_known(source) and is_known(target)):
            return original(values, source, target, rounding_mode)
        rounded = encoded(decoded(values, source), target, towards_zero=getattr(rounding_mode, "name", "") == "RTZ")
        return rounded.view(f"u{rounded.itemsize}")

    return convert


def _of_one(function: Any) -> Callable[..., Any]:
    def create(self: Any, arg: Any) -> Any:
        return self.unary_op(arg, function)

    return create


def _nothing(_builder: Any) -> None:
    pass


class _Corrected:
    """Methods for InterpreterBuilder, in whose place ``self`` stands; handles hold a NumPy array and a Triton type."""

    handle: Any
    ir: Any
    memory: Any
    numpy_type: Any
    triton_rmw: Any
    triton_cas: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not name.startswith(("create_", "get_", "set_", "new_", "restore_")):
            raise AttributeError(name)

        def unable(*_args: Any, **_kwargs: Any) -> Any:
            raise uninterpretable(name.removeprefix("create_"))

        return unable

    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        """Conversions between numbers: floats are rounded once, and become integers as ``cvt.rzi`` makes them."""
        source, target = src.dtype.scalar, dst_type.scalar
        if source.is_floating() and target.is_floating() and is_known(target):
            return self.handle(encoded(decoded(src.data, source), target), target)
        if target == tl.bfloat16:
            return self.handle(encoded(src.data.astype(np.float64), target), target)
        if source.is_floating() and not target.is_floating():
            return self.handle(to_integers(decoded(src.data, source), self.numpy_type(target)), target)
        return self.handle(src.data.astype(self.numpy_type(target)), target)

    def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
        """An operation on two arrays of one type. Comparisons give int1, whose sums are modulo 2."""
        dtype = lhs.dtype.scalar
        a, b = decoded(lhs.data, dtype), decoded(rhs.data, rhs.dtype.scalar)
        if op in _COMPARISONS:
            return self.handle(op(a, b), tl.int1)
        if a.dtype == np.bool_ and b.dtype == np.bool_:
            return self.handle((op(a.astype(np.int8), b.astype(np.int8)) & 1).astype(np.bool_), dtype)
        return self.handle(self.stored(op(a, b), dtype), dtype)

    def unary_op(self, arg: Any, op: Any) -> Any:
        """A function of one array, in its type."""
        dtype = arg.dtype.scalar
        return self.handle(self.stored(op(decoded(arg.data, dtype)), dtype), dtype)

    def stored(self, values: Any, dtype: Any) -> Any:
        """Results of NumPy in the form in which handles hold them."""
        if dtype.is_floating() and is_known(dtype):
            return encoded(values, dtype)
        return values.astype(self.numpy_type(dtype)) if values.itemsize > self.numpy_type(dtype).itemsize else values

    # PTX ISA, min and max: a NaN beside a number is left out, or with .NaN taken over.
    def create_minnumf(self, lhs: Any, rhs: Any) -> Any:
        return self.binary_op(lhs, rhs, np.fmin)

    def create_maxnumf(self, lhs: Any, rhs: Any) -> Any:
        return self.binary_op(lhs, rhs, np.fmax)

    def create_clampf(self, arg: Any, lo: Any, hi: Any, propagate_nans: Any) -> Any:
        """The smaller of ``hi`` and the larger of ``lo`` and the value; NaN stays NaN only where it is to propagate."""
        is_left_out = propagate_nans == self.ir.PROPAGATE_NAN.NONE
        larger, smaller = (np.fmax, np.fmin) if is_left_out else (np.maximum, np.minimum)
        return self.binary_op(self.binary_op(arg, lo, larger), hi, smaller)

    # NumPy's functions differ between processors; once rounded to float32 they agree.
    create_exp, create_exp2 = _of_one(exp), _of_one(exp2)
    create_cos, create_sin = _of_one(once(np.cos)), _of_one(once(np.sin))
    create_log, create_log2 = _of_one(once(np.log)), _of_one(once(np.log2))
    create_rsqrt = _of_one(once(lambda values: 1.0 / np.sqrt(values)))

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        """Fused x y + z, rounded once (PTX ISA, ``fma.rn``)."""
        dtype = z.dtype.scalar
        values = fused(*(decoded(handle.data, dtype) for handle in (x, y, z)))
        return self.handle(encoded(values, dtype), dtype)

    def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        """Returns a matrix product, added to ``d`` and rounded once.

        If TF32 is asked for, float32 operands are cut to TF32.
        """
        del max_num_imprecise_acc
        dtype = d.dtype.scalar
        if not dtype.is_floating():
            return self.handle(np.matmul(a.data, b.data, dtype=d.data.dtype) + d.data, dtype)
        left, right = decoded(a.data, a.dtype.scalar), decoded(b.data, b.dtype.scalar)
        if (
            left.dtype == np.float32
            and a.dtype.primitive_bitwidth == 32
            and input_precision == self.ir.INPUT_PRECISION.TF32
        ):
            left, right = to_tf32(left), to_tf32(right)
        product = np.matmul(left.astype(np.float64), right.astype(np.float64))
        return self.handle(encoded(product + decoded(d.data, dtype), dtype), dtype)

    def get_bf16(self, value: Any) -> Any:
        return self.handle(encoded(np.array([value], dtype=np.float32), tl.bfloat16), tl.bfloat16)

    def get_all_ones_value(self, type: Any) -> Any:  # noqa: A002 - Triton passes it by this name
        kind = self.numpy_type(type)
        ones = np.array([True]) if kind == np.bool_ else np.array([-1], dtype=f"i{kind.itemsize}").view(kind)
        return self.handle(ones, type.scalar)

    def create_atomic_rmw(self, rmw_op: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        """Runs Triton's own operation on arrays that lie in memory as it assumes.

        Adds in bfloat16, which it lacks, one by one.
        """
        ptr, val, mask = (self.packed(handle, ptr.data.shape) for handle in (ptr, val, mask))
        if val.dtype.scalar == tl.bfloat16 and rmw_op == self.ir.ATOMIC_OP.FADD:
            return self.added_one_by_one(ptr, val, mask)
        return _Corrected.triton_rmw(self, rmw_op, ptr, val, mask, sem, scope)

    def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        ptr, cmp, val = (self.packed(handle, ptr.data.shape) for handle in (ptr, cmp, val))
        return _Corrected.triton_cas(self, ptr, cmp, val, sem, scope)

    def packed(self, handle: Any, shape: tuple[int, ...]) -> Any:
        return self.handle(np.ascontiguousarray(np.broadcast_to(handle.data, shape)), handle.dtype)

    def added_one_by_one(self, ptr: Any, val: Any, mask: Any) -> Any:
        before, one = np.zeros(val.data.shape, dtype=val.data.dtype), np.ones(1, dtype=np.bool_)
        for index in zip(*np.nonzero(mask.data), strict=True):
            at = ptr.data[index].reshape(1)
            before[index] = old = self.memory.load(at, one, np.zeros(1, val.data.dtype), val.data.dtype)[0]
            new = self.create_fadd(self.handle(np.array([old]), val.dtype), self.handle(val.data[index], val.dtype))
            self.memory.store(at, new.data, one)
        return self.handle(before, val.dtype.scalar)

    # Programs run one after the other, so that what a launch depends on has ended, and nothing waits in one.
    create_barrier = create_grid_dependency_wait = create_grid_dependency_launch_dependents = _nothing

    def create_extern_elementwise(
        self,
        library: str,
        path: str,
        symbol: str,
        args: Any,
        type: Any,  # noqa: A002 - Triton's name for it
        is_pure: Any,
    ) -> Any:
        """A function of libdevice, from its documented meaning."""
        del library, path, is_pure
        if symbol not in LIBDEVICE:
            raise uninterpretable(f"{symbol}, a function of another library")
        dtype = type.scalar
        values = LIBDEVICE[symbol](*(decoded(arg.data, arg.dtype.scalar) for arg in args))
        return self.handle(np.asarray(values).astype(self.numpy_type(dtype)), dtype)

    def create_inline_asm(self, *_args: Any, **_kwargs: Any) -> Any:
        raise uninterpretable("inline assembly")
