"""Numbers as Triton's language, PTX and libdevice define them, for the interpreter: conversions, and functions rounded once.

The interpreter keeps bfloat16 and 8-bit floats as the integers that hold their bits. Functions here take and give arrays in
that form where they say "stored", and ordinary NumPy floats else.
"""

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from numpy.typing import NDArray

from oracles._double_word import DoubleWord, two_product, two_sum

Array = NDArray[Any]

_STORED: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16,
    "fp8e5": ml_dtypes.float8_e5m2,
    "fp8e4nv": ml_dtypes.float8_e4m3fn,
    "fp8e5b16": ml_dtypes.float8_e5m2fnuz,
    "fp8e4b8": ml_dtypes.float8_e4m3fnuz,
}
"""Triton's names of formats that NumPy lacks, with the types of ml_dtypes that round to them. There is no type for
fp8e4b15."""

_NATIVE: dict[str, Any] = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}


def is_known(dtype: tl.dtype) -> bool:
    """True if ``decoded`` and ``encoded`` know this Triton type of floating-point numbers."""
    return dtype.name in _STORED or dtype.name in _NATIVE


def decoded(data: Array, dtype: tl.dtype) -> Array:
    """Stored numbers of a Triton type as NumPy numbers: bfloat16 and 8-bit floats as float32, others as they are."""
    stored = _STORED.get(dtype.scalar.name)
    return data if stored is None or data.dtype.kind != "u" else data.view(stored).astype(np.float32)


def encoded(values: Array, dtype: tl.dtype, *, towards_zero: bool = False) -> Array:
    """Floats rounded once to a Triton type, stored: to nearest with ties to even, or towards zero.

    8-bit formats take their largest finite number for what lies beyond it, as ``cvt.rn.satfinite`` does, the only
    conversion to them that the PTX ISA has. Raises KeyError for a type that ``is_known`` does not know.
    """
    name = dtype.scalar.name
    if name in _NATIVE:
        rounded = values.astype(_NATIVE[name], copy=False)
        return _pulled_in(rounded, values) if towards_zero else rounded
    narrow = _STORED[name]
    wide = _to_odd_float32(values) if values.dtype == np.float64 else values.astype(np.float32)
    if narrow is not ml_dtypes.bfloat16:
        largest = np.float32(ml_dtypes.finfo(narrow).max)
        wide = np.clip(wide, -largest, largest)
    rounded = np.asarray(wide.astype(narrow))
    if towards_zero:
        rounded = _pulled_in(rounded, values)
    return rounded.view(f"u{rounded.itemsize}")


def to_integers(values: Array, target: Any) -> Array:
    """Floats as integers of a NumPy type, as ``cvt.rzi`` gives them: towards zero, clamped to the type's range.

    NaN becomes 0, or the integer of which only the highest bit is set where either type has 64 bits (PTX ISA, ``cvt``).
    PTX has no conversion to 8 bits; compilers convert to 16 and keep the lower half.
    """
    target = np.dtype(target)
    wide = np.dtype(f"{target.kind}{max(2, target.itemsize)}")
    limits = np.iinfo(wide)
    whole = np.trunc(values.astype(np.float64))
    # The largest 64-bit integers round up to a power of two, which is out of range already.
    above, below = whole >= float(limits.max), whole <= float(limits.min)
    result = np.where(above | below | np.isnan(whole), 0.0, whole).astype(wide)
    result[above], result[below] = limits.max, limits.min
    if wide.itemsize == 8 or values.dtype == np.float64:
        result[np.isnan(whole)] = np.array(1 << (8 * wide.itemsize - 1), dtype=f"u{wide.itemsize}").view(wide)
    return result.astype(target)


def once(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Returns the function with float32 results rounded once from float64 results.

    NumPy's float32 functions differ by units in the last place between processors, since they use the processor's
    vectors. Its float64 functions differ too, but far below float32's last place.
    """

    def rounded(values: Array) -> Array:
        if values.dtype == np.float64:
            return function(values)
        wide: Array = function(values.astype(np.float64))
        return wide.astype(values.dtype)

    return rounded


def exp(values: Array) -> Array:
    """Exponentials: of float32 and narrower rounded once, of float64 within 0.8 ULP and the same on every machine."""
    if values.dtype != np.float64:
        return _exp_once(values)
    x = np.clip(values, -_FARTHEST, _FARTHEST)
    steps = np.rint(x * (1.0 / (_LN2_HIGH + _LN2_LOW)))
    return _powers(steps, two_sum(x - steps * _LN2_HIGH, -steps * _LN2_LOW))


def exp2(values: Array) -> Array:
    """Powers of two, with the errors of ``exp``.

    float64 powers are within an ULP, since the exponent is rounded once more.
    """
    if values.dtype != np.float64:
        return _exp2_once(values)
    x = np.clip(values, -_FARTHEST, _FARTHEST)
    steps = np.rint(x)
    return _powers(steps, two_sum((x - steps) * _LN2_HIGH, (x - steps) * _LN2_LOW))


_exp_once, _exp2_once = once(np.exp), once(np.exp2)

_LN2_HIGH = float.fromhex("0x1.62e42fefp-1")
"""The first 33 bits of log 2, whose products with integers below 2^20 are exact."""
_LN2_LOW = float.fromhex("0x1.473de6af278edp-34")
"""The next 53."""
_DEGREE = 13
"""Degree of the Taylor polynomial on |r| <= log(2)/2. The terms left out are below 2^-57 of the result."""
_FARTHEST = 1200.0
"""Distance beyond which all powers are 0 or infinite."""


def _powers(steps: Array, rest: DoubleWord) -> Array:
    """2^steps e^rest by additions and products alone, which IEEE 754 rounds in the same way everywhere."""
    r = rest.high
    tail = np.full_like(r, 1.0 / math.factorial(_DEGREE))
    for k in range(_DEGREE - 1, 1, -1):
        tail = tail * r + 1.0 / math.factorial(k)
    # The largest terms last, so that only the last sum costs more than a fraction of an ULP.
    fraction = 1.0 + (r + (r * r * tail + rest.low))
    return np.ldexp(fraction, np.nan_to_num(steps).astype(np.int32))


def to_tf32(values: Array) -> Array:
    """Float32 numbers rounded to nearest in TF32's 11 significant bits: the least that a TF32 product loses."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded.view(np.float32), values)


def fused(x: Array, y: Array, z: Array) -> Array:
    """Fused x y + z of NumPy floats: float64 rounded once, narrower formats as float64 that is still to be rounded.

    The latter results are rounded to odd, so that one rounding to nearest gives the result of a fused operation.
    Float64 products beyond 2^996, where they can't be split, and below 2^-969 are rounded before the sum. Boldo and
    Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE Transactions
    on Computers 57 (2008).
    """
    x, y, z = np.broadcast_arrays(x, y, z)
    if x.dtype != np.float64:
        # Products of two such numbers are exact in float64.
        return _odd_sum(x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64))
    product = two_product(x, y)
    low = two_sum(z, product.low)
    high = two_sum(product.high, low.high)
    exact = high.high + _odd_sum(low.low, high.low)
    return np.where(np.isfinite(exact), exact, x * y + z)


def _odd_sum(a: Array, b: Array) -> Array:
    """Returns float64 sums rounded to odd.

    If a sum is no float64, the result is its neighbour whose last bit is set.
    """
    total = two_sum(a, b)
    bits = total.high.view(np.int64)
    is_even = (bits & 1) == 0
    inexact = np.isfinite(total.high) & (total.low != 0.0) & is_even
    # Away from zero where what was lost has the sum's own sign.
    step = np.where((total.low > 0.0) == (total.high > 0.0), 1, -1)
    odd: Array = np.where(inexact, bits + step, bits)
    return odd.view(np.float64)


def _to_odd_float32(values: Array) -> Array:
    """Rounds float64 numbers to odd float32. Another rounding to few bits then gives the same as a single rounding."""
    truncated = _pulled_in(values.astype(np.float32), values)
    inexact = np.isfinite(values) & (truncated.astype(np.float64) != values)
    odd: Array = truncated.view(np.uint32) | inexact.astype(np.uint32)
    return odd.view(np.float32)


def _pulled_in(rounded: Array, values: Array) -> Array:
    """Returns rounded numbers, each one step nearer to zero if rounding carried it away from zero."""
    away = np.abs(rounded.astype(np.float64)) > np.abs(values.astype(np.float64))
    bits = rounded.view(f"u{rounded.itemsize}")
    # The bits of a float without its sign count up with its size, and infinity follows the largest number.
    nearer: Array = bits - away.astype(bits.dtype)
    return nearer.view(rounded.dtype)


_ONE: dict[str, Any] = {
    "exp": exp,
    "exp2": exp2,
    "exp10": lambda x: np.power(10.0, x),
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "fabs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "nearbyint": np.rint,
}
_TWO: dict[str, Any] = {
    "pow": np.power,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "ldexp": np.ldexp,
    "copysign": np.copysign,
}
_FAST = ("exp", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "pow")
_ROUNDED: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": lambda x: np.divide(x.dtype.type(1), x),
    "sqrt": np.sqrt,
}
_ASKED: dict[str, Any] = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}


def _rounded_once(function: Any) -> Callable[..., Any]:
    def apply(first: Any, *rest: Any) -> Any:
        return once(lambda x: function(x, *rest))(first)

    return apply


def _functions() -> dict[str, Callable[..., Any]]:
    """Symbols end in f for float32. Roundings to nearest alone: ``_rz``, ``_rd`` and ``_ru`` are left out."""
    once_rounded = {name: _rounded_once(function) for name, function in (_ONE | _TWO).items()}
    return {
        **{f"__nv_{name}{end}": function for name, function in once_rounded.items() for end in ("", "f")},
        **{f"__nv_fast_{name}f": once_rounded[name] for name in _FAST},
        **{f"__nv_{kind}{name}_rn": function for name, function in _ROUNDED.items() for kind in "df"},
        **{f"__nv_{name}{kind}": function for name, function in _ASKED.items() for kind in "df"},
        **dict.fromkeys(("__nv_fma", "__nv_fmaf", "__nv_fma_rn", "__nv_fmaf_rn"), fused),
        "__nv_frsqrt_rn": once_rounded["rsqrt"],
        "__nv_fast_fdividef": np.divide,
        "__nv_finitef": np.isfinite,
    }


LIBDEVICE = _functions()
"""Functions of libdevice by symbol. Each takes NumPy arrays of the types in its symbol's signature, and gives one.

Their meaning is that of the libdevice user's guide. Approximate functions (``__nv_fast_expf``) are computed like exact
ones, since runs without a GPU judge logic alone; a GPU's figures come from a GPU.
"""
