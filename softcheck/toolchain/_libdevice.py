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


FUNCTIONS = _functions()
"""Each takes NumPy arrays of the types in its symbol's signature, and gives one."""
