"""Functions of libdevice by symbol, computed in float64 and rounded once: ``FUNCTIONS``.

Their meaning is that of the libdevice user's guide. Approximate functions (``__nv_fast_expf``) are computed like exact
ones, since runs without a GPU judge logic alone; a GPU's figures come from a GPU.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from softcheck.toolchain._interpreter_numbers import exp, exp2, fused, once

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
_FAST = ("exp", "exp10", "log", "log2", "log10", "sin", "cos", "tan")
_ROUNDED: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


def _rounded_once(function: Any) -> Callable[..., Any]:
    def apply(first: Any, *rest: Any) -> Any:
        return once(lambda x: function(x, *rest))(first)

    return apply


def _functions() -> dict[str, Callable[..., Any]]:
    """Symbols end in f for float32. Roundings to nearest alone: ``_rz``, ``_rd`` and ``_ru`` are left out."""
    found: dict[str, Callable[..., Any]] = {}
    for name, function in (_ONE | _TWO).items():
        found[f"__nv_{name}"] = found[f"__nv_{name}f"] = _rounded_once(function)
    for name in _FAST:
        found[f"__nv_fast_{name}f"] = _rounded_once(_ONE[name])
    found["__nv_fast_powf"] = _rounded_once(np.power)
    found["__nv_fast_fdividef"] = np.divide
    for name, function in _ROUNDED.items():
        found[f"__nv_d{name}_rn"] = found[f"__nv_f{name}_rn"] = function
    for letter in "df":
        found[f"__nv_{letter}rcp_rn"] = lambda x: np.divide(x.dtype.type(1), x)
        found[f"__nv_{letter}sqrt_rn"] = np.sqrt
    found["__nv_frsqrt_rn"] = _rounded_once(_ONE["rsqrt"])
    found["__nv_fma"] = found["__nv_fmaf"] = found["__nv_fma_rn"] = found["__nv_fmaf_rn"] = fused
    found["__nv_isnand"] = found["__nv_isnanf"] = np.isnan
    found["__nv_isinfd"] = found["__nv_isinff"] = np.isinf
    found["__nv_finitef"] = found["__nv_isfinited"] = np.isfinite
    return found


FUNCTIONS = _functions()
"""Each takes NumPy arrays of the types in its symbol's signature, and gives one."""
