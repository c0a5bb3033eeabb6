"""Kinds of arithmetic, as far as error bounds depend on them, and the constants of their errors, as logarithmic errors.

docs/bounds.md gives the source of each.
"""

import math
from dataclasses import dataclass
from typing import Literal

import msgspec

from oracles.formats import FLOAT32, FLOAT64, Format

ExpKind = Literal["ex2_approx", "libdevice", "prescaled_ex2_approx"]
DivisionKind = Literal["div_full", "div_rn", "reciprocal"]

WARP = 32
"""Threads of a warp: the partial sums that the standard contract spreads a wide row over, at least."""


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

VANISHED = 800.0
"""A d beyond which every kernel gives less than tau: exp(-800) is below 2^-1154, and 800 c is at most 4."""

LARGEST_EXPONENT = 700.0
"""Largest exponent whose exp is finite in float64, rounded down."""


@dataclass(frozen=True, slots=True)
class Model:
    """The constants of the bound for one arithmetic and output format, as logarithmic errors."""

    exponent: float
    """c: error of the exponent per unit of d, or per unit of |x| + |max x| if x is multiplied by log2(e) first."""
    exponential: float
    """eta_e: error of exp itself."""
    addition: float
    """u of the sum, per addition on the longest path."""
    denominator: float
    """Error of rounding the finished sum to the type that divides."""
    division: float
    """eta_d."""
    rescale: float
    """Error of one rescaling of the running sum, per addition; 0 if nothing is rescaled."""
    underflow: float
    """tau: absolute error by underflow of the exponential, the division or the result."""
    rounds_result: bool
    """True if the quotient is rounded once more, to a narrower output format."""
    prescaled: bool
    """True if x is multiplied by log2(e) before the maximum is subtracted."""
    lanes: int = WARP
    """Least number of partial sums that a wide row is spread over."""
    scaling: float = 0.0
    """Error of the exponent per unit of |x| + |max x| if scaled logits are rounded before the maximum is subtracted."""
    logit_error: float = 0.0
    """Absolute error of each logit, as of one that was capped."""
    roundoff: float = 0.0
    """Error of one rounding to the type that differences and exponentials are computed in, and stored in."""
    products: float = 0.0
    """Relative error of a factor of a matrix product, if it is rounded to fewer bits than its format has."""
    largest_sum: float = FLOAT32.max
    """Largest finite number of the types that sums are formed and kept in."""

    @property
    def rounds_logits(self) -> bool:
        """True if errors grow with the logits themselves, and not only with their distance from the maximum."""
        return self.prescaled or self.scaling > 0

    @property
    def per_logit(self) -> float:
        """Error of the exponent per unit of |x| + |max x|."""
        return self.scaling + (self.exponent if self.prescaled else 0.0)

    @property
    def left_at_maximum(self) -> float:
        """Exponent that a fused scaling leaves at the largest logit, per unit of |max x|: the rounding error of one product.

        If it is the product with log2(e), it is less than c/2. If it is a product before that, it is less than ``scaling``.
        """
        return self.scaling + (0.5 * self.exponent if self.prescaled else 0.0)

    def summing(self, columns: int) -> float:
        """Logarithmic error of a row's sum, without the logarithm of exp(A)'s weighted mean."""
        longest = depth(columns, self.lanes)
        return longest * (self.addition + self.rescale) + columns * self.underflow + self.denominator

    def shared(self, columns: int) -> float:
        """The part of B_j that all elements of a row share, without the logarithm of exp(A)'s weighted mean."""
        return self.summing(columns) + self.division


def depth(columns: int, lanes: int = WARP) -> int:
    """h: additions on the longest path of a row's sum, for a kernel that spreads a row over ``lanes`` or more.

    A thread adds up its share, a tree over at most 1024 threads adds log2(1024) = 10 more, and tiles' sums are added in turn: at most
    ceil(n/lanes) + 10 (docs/bounds.md, section 4). Kernels may give short rows fewer threads, so 31 additions in sequence are always
    allowed. No order puts more than n - 1 on a path, so that one lane allows every order. Padding adds exact zeros.
    """
    return max(0, min(columns - 1, max(WARP - 1, -(-columns // lanes) + 10)))


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
        scaling=(_log_error(u) + stored) * (1 + exponent) if arithmetic.scaled_logits else 0.0,
        lanes=min(WARP, arithmetic.lanes),
        roundoff=_log_error(u) + stored,
        products=_TF32 if arithmetic.products == "tf32" and fmt.width == 32 else 0.0,
        largest_sum=min(total.max, inner.max),
    )


def _log_error(relative: float) -> float:
    """Largest error in the logarithm of a value with a relative error: log(1 + e) < -log(1 - e)."""
    return -math.log1p(-relative)
