"""Kinds of arithmetic, as far as error bounds depend on them, and the constants of their errors, as logarithmic errors.

docs/bounds.md gives the source of each.
"""

import math
from typing import Literal

import msgspec

from oracles.formats import FLOAT32, FLOAT64, Format
from softcheck.numbers.model import WARP, Model

ExpKind = Literal["ex2_approx", "libdevice", "prescaled_ex2_approx"]
DivisionKind = Literal["div_full", "div_rn", "reciprocal"]


class Arithmetic(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A variant's arithmetic, as far as error bounds depend on it. The defaults are the standard contract."""

    exp: ExpKind = "ex2_approx"
    division: DivisionKind = "div_full"
    accumulation: Literal["float32", "float64", "input"] = "float32"
    """The type of the exponentials' sum: "input" sums in the input dtype."""
    intermediate: Literal["float32", "float64", "input"] = "float32"
    """The type that differences and exponentials are rounded to; float64 input always computes in float64."""
    rescales: bool = False
    """True if a running maximum rescales the sum (online softmax)."""
    flush_to_zero: bool = False
    scaled_logits: bool = False
    """True if logits are multiplied by a factor that is no power of two before the maximum is subtracted, as in
    attention."""
    products: Literal["input", "tf32"] = "input"
    """The type that factors of matrix products are rounded to: "tf32" has 11 significant bits, for float32 alone."""
    lanes: int = WARP
    """Least number of partial sums that a wide row is spread over. With 1, a row is added up in any order, also one
    number after the other."""


_LOG2E_CONSTANT = 0.224
"""Relative error of log2(e) rounded to float32, in units of 2^-24; float64's is 0.127 units of 2^-53."""

_TF32 = 2.0**-10
"""Relative error of a float32 number that is cut off to the 11 significant bits of TF32."""

_DIVISION = {"div_full": 5.0, "div_rn": 1.0, "reciprocal": 6.0}
"""Logarithmic error of a division in u. div.full and div.approx are within 2 ULP of the correctly rounded quotient (PTX
ISA, CUDA C++ programming guide), and so within 2.5 ULP, 5 u, of the exact quotient. A multiplication by the reciprocal
adds one u."""


def model(arithmetic: Arithmetic, fmt: Format) -> Model:
    """Returns the bound's constants; docs/bounds.md gives the source of each.

    Operations on 16-bit intermediates are computed in float32 and then rounded, so they have both roundings.
    """
    named = {"float32": FLOAT32, "float64": FLOAT64, "input": fmt}
    inner = FLOAT64 if fmt == FLOAT64 else named[arithmetic.intermediate]
    total = FLOAT64 if fmt == FLOAT64 else named[arithmetic.accumulation]
    narrow = inner.width == 16
    u = FLOAT32.unit_roundoff if narrow else inner.unit_roundoff
    stored = _log_error(inner.unit_roundoff) if narrow else 0.0
    # libdevice's exp takes the rounded difference. ex2.approx takes its product with a rounded constant, rounded once
    # more.
    difference = stored if narrow else _log_error(u)
    argument = difference if arithmetic.exp == "libdevice" else difference + (1 + _LOG2E_CONSTANT) * _log_error(u)
    exponent = argument * (1 + argument)
    # Both exponentials are within 2 ULP of the correctly rounded result, and so within 2.5 ULP, 5 u, of the exact
    # result.
    exponential = 5 * _log_error(u) + stored
    return Model(
        exponent=exponent,
        exponential=exponential,
        addition=_log_error(total.unit_roundoff),
        denominator=_log_error(inner.unit_roundoff) if total.precision > inner.precision else 0.0,
        division=_DIVISION[arithmetic.division] * _log_error(u) + stored,
        rescale=exponential + _log_error(total.unit_roundoff) if arithmetic.rescales else 0.0,
        underflow=inner.least_normal if arithmetic.flush_to_zero else 8 * inner.least_subnormal,
        rounds_result=fmt.precision < inner.precision,
        prescaled=arithmetic.exp == "prescaled_ex2_approx",
        scaling=_log_error(u) + stored if arithmetic.scaled_logits else 0.0,
        lanes=min(WARP, arithmetic.lanes),
        roundoff=_log_error(u) + stored,
        constant=0.0 if arithmetic.exp == "libdevice" else _LOG2E_CONSTANT * _log_error(u),
        products=_TF32 if arithmetic.products == "tf32" and fmt.width == 32 else 0.0,
        largest_sum=min(total.max, inner.max),
    )


def _log_error(relative: float) -> float:
    """Largest error in the logarithm of a value with a relative error: log(1 + e) < -log(1 - e)."""
    return -math.log1p(-relative)


IN_FLOAT64 = model(Arithmetic(exp="libdevice"), FLOAT64)
"""Errors of numpy's float64: exponentials by 5 units at most (oracles/float64.py), and sums by less than those of a warp."""
