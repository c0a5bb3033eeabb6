"""Constants of a format, an arithmetic and a column count for the kernels, computed once on the host."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from oracles.formats import FLOAT64, Format, Values
from softcheck.judge.device.exp64 import CLAMP, truncation
from softcheck.operations import bounds
from softcheck.operations.arithmetic import Arithmetic

LARGEST_GROWTH = 2.0**-4
"""The largest exp(B) - 1 of which the kernels' four terms are within a relative 2^-22."""

_UNIT_ROUNDOFF = 2.0**-53
_VISIBLE = 2.0**-18
"""Relative error of bounds and shares, which are computed in float32: some 20 roundings of 2^-24 each."""


@dataclass(frozen=True, slots=True, eq=False)
class Constants:
    """Bounds of one arithmetic at one column count; names as in ``softcheck.operations.bounds.Model``.

    Constants are compared by identity, since each launch looks something up by them; ``constants_of`` keeps them.
    """

    fmt: Format
    model: bounds.Model
    columns: int

    @property
    def additions(self) -> float:
        """The part of B_j that all rows share: sum, division and rescalings, without the weighted mean of A."""
        return self.model.shared(self.columns)

    @property
    def largest_growth(self) -> float:
        """An upper bound on exp(B_j) - 1 of all elements with d <= CLAMP."""
        return self.growth_up_to(CLAMP)

    def growth_up_to(self, distance: float) -> float:
        """An upper bound on exp(B_j) - 1 of all elements with d <= distance."""
        elements = self.model.exponent * distance + self.model.exponential
        # The weighted mean of d is at most log(columns): it is the difference of two entropies.
        row = self.additions + self.model.exponent * math.log(max(2, self.columns)) + self.model.exponential
        return math.expm1(min(elements + row, 1.0))

    @property
    def supported(self) -> bool:
        """True if the format has a float64 reference, and the kernels' short series and missing cap are good enough."""
        small = self.largest_growth <= LARGEST_GROWTH and self.model.underflow <= self.fmt.least_normal
        return self.fmt != FLOAT64 and not self.model.rounds_logits and small

    @property
    def underflows(self) -> bool:
        """True if tau shows in any bound."""
        return self.model.underflow > 2.0**-30 * self.fmt.least_subnormal

    @property
    def far(self) -> bool:
        """True if an error before the rounding to the format may exceed half an ULP."""
        return self.model.rounds_result and self._before_rounding > 0.5

    @property
    def largest_bound(self) -> float:
        """ULPs above the bound of every element with d <= CLAMP, and of every element whose r is below half an ULP."""
        return 2 * self._before_rounding + 2.0

    @property
    def _before_rounding(self) -> float:
        """The largest error, in ULPs, of elements with d <= CLAMP before the rounding to the format."""
        return self.largest_growth * 2.0**self.fmt.precision + self.model.underflow / self.fmt.least_subnormal

    @property
    def few_terms(self) -> bool:
        """True if two terms of expm1(B) are within a relative 2^-23: the third is B^2 / 6."""
        return self.largest_growth <= 2.0**-10

    @property
    def flags(self) -> tuple[int | bool, ...]:
        """PRECISION, MIN_EXPONENT, ROUNDS, UNDERFLOWS, FAR and MORE_TERMS, as the kernels take them."""
        fmt = self.fmt
        own = (self.model.rounds_result, self.underflows, self.far, not self.few_terms)
        return (fmt.precision, fmt.min_exponent, *own)

    def uncertainty(self, degree: int) -> float:
        """Relative error of the kernels' reference for r >= 2^emin, where d <= log(columns) - log(2^emin) < 105.

        As for ``oracles.float64``, it adds up: the exponential's argument and the exponential for the element and for
        the denominator, at most 128 + columns / 256 additions on any path, reciprocal and product.
        """
        distances = 105 + math.log(max(2, self.columns))
        roundings = 1.7 * distances + 2 * 4 + 128 + self.columns / 256 + 4
        return 2 * truncation(degree) + _UNIT_ROUNDOFF * roundings

    def margin(self, degree: int) -> float:
        """Distance of error / bound from 1 below which a verdict is in doubt.

        The kernels take the mean of A for log(mean of exp(A)). The difference is at most the mean of A^2, and that is
        the mean of A times the largest A among elements with d <= log(columns) + 10; all other elements together weigh
        below e^-10.
        """
        largest = self.model.exponent * (math.log(max(2, self.columns)) + 10) + self.model.exponential
        return _VISIBLE + 2 * largest + 4 * self.uncertainty(degree) * 2.0**self.fmt.precision

    def vector(self, degree: int, margin: float | None = None) -> Values:
        """The kernels' constants, in the order in which the kernels take them, with another margin if one is given.

        They are arguments of every launch, since a copy in device memory could be overwritten by a variant that writes
        out of bounds. tau is 2^64 times as large, since a float32 of its size may be a subnormal of few bits.
        """
        model = self.model
        summed_twice = 2.0 if model.rescale else 0.0
        tau = model.underflow
        return np.array(
            [
                model.exponent,
                model.exponential,
                self.additions,
                summed_twice,
                tau * math.exp(self.additions) * 2.0**64,
                self.columns * tau,
                self.columns + 1.0,
                self.margin(degree) if margin is None else margin,
                self.uncertainty(degree),
            ]
        )

    def scalars(self, degree: int, margin: float | None = None) -> tuple[float, ...]:
        """Returns ``vector`` as arguments of a launch, computed once for each set of constants."""
        return _scalars(self, degree, margin)


@lru_cache(maxsize=1024)
def _scalars(constants: Constants, degree: int, margin: float | None) -> tuple[float, ...]:
    return tuple(constants.vector(degree, margin).tolist())


@lru_cache(maxsize=1024)
def constants_of(fmt: Format, arithmetic: Arithmetic, columns: int) -> tuple[Constants, bool]:
    """Returns the constants of an arithmetic, and True if the kernels support them; both computed once."""
    found = Constants(fmt, bounds.model(arithmetic, fmt), columns)
    return found, found.supported
