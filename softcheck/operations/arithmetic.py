"""Kinds of arithmetic, as far as error bounds depend on them."""

from typing import Literal

import msgspec

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
