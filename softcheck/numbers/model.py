"""The constants of an arithmetic's errors, as logarithmic errors; docs/bounds.md gives the source of each."""

from dataclasses import dataclass

from oracles.formats import FLOAT32

WARP = 32
"""Threads of a warp: the partial sums that the standard contract spreads a wide row over, at least."""

VANISHED = 800.0
"""A d beyond which every kernel gives less than tau: exp(-800) is below 2^-1154, and 800 c is at most 4."""

LARGEST_EXPONENT = 700.0
"""Largest exponent whose exp is finite in float64, rounded down."""


@dataclass(frozen=True, slots=True)
class Model:
    """The constants of the bound for one arithmetic and output format, as logarithmic errors."""

    exponent: float
    """c: error of the exponent per unit of d, of the difference and of its product with log2(e)."""
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
    """Relative error of scaled logits that are rounded before the maximum is subtracted."""
    roundoff: float = 0.0
    """Error of one rounding to the type that differences and exponentials are computed in, and stored in."""
    constant: float = 0.0
    """Relative error of the constant log2(e)."""
    products: float = 0.0
    """Relative error of a factor of a matrix product, if it is rounded to fewer bits than its format has."""
    largest_sum: float = FLOAT32.max
    """Largest finite number of the types that sums are formed and kept in."""

    @property
    def prescaling(self) -> float:
        """Relative error of logits that are multiplied by log2(e) before the maximum is subtracted, if they are."""
        return self.roundoff + self.constant if self.prescaled else 0.0

    @property
    def product(self) -> float:
        """Relative error of a difference's product with log2(e), if there is one."""
        return 0.0 if self.prescaled else max(0.0, self.exponent - self.roundoff)

    def summing(self, columns: int) -> float:
        """Logarithmic error of a row's sum, without the logarithm of exp(A)'s weighted mean."""
        longest = depth(columns, self.lanes)
        return longest * (self.addition + self.rescale) + columns * self.underflow + self.denominator


EXACT = Model(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, rounds_result=False, prescaled=False)
"""An arithmetic without errors, by which a formula gives its values alone."""


def depth(columns: int, lanes: int = WARP) -> int:
    """h: additions on the longest path of a row's sum, for a kernel that spreads a row over ``lanes`` or more.

    A thread adds up its share, a tree over at most 1024 threads adds log2(1024) = 10 more, and tiles' sums are added in turn: at most
    ceil(n/lanes) + 10 (docs/bounds.md#sums). Kernels may give short rows fewer threads, so 31 additions in sequence are always
    allowed. No order puts more than n - 1 on a path, so that one lane allows every order. Padding adds exact zeros.
    """
    return max(0, min(columns - 1, max(WARP - 1, -(-columns // lanes) + 10)))
