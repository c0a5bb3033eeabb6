"""Numbers of a formula: their exact values beside the largest errors with which an arithmetic may compute them.

A formula is written once, with the steps that kernels have. Each step adds its own error, and docs/bounds.md proves it. Arrays are numpy's or
torch's float64, [..., columns] or [..., 1], and a row's numbers lie along the last axis. Values of ``Number`` have absolute errors, those of ``Positive`` errors of their logarithm.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from oracles.arrays import Array, largest, module_of
from oracles.formats import Format
from softcheck.numbers.model import EXACT, LARGEST_EXPONENT, VANISHED, Model, depth

LOGARITHM, NEXT_TO_ONE = 6.0, 3.0
"""Relative and absolute error of a logarithm in rho. lg2.approx is within 2^-22 absolutely for arguments from 0.5 to 2 and relatively
elsewhere (PTX ISA), which is 4 rho of base 2 and 2.8 of base e; the product with log(2) rounds twice. Logarithms of libraries
are within 1 ULP, 2 rho."""

UNKNOWN = 100.0
"""Error of a logarithm from which nothing is known of a number but what it may become."""

_EXPONENT = 0x7FF << 52


def half_ulp(size: Array, fmt: Format) -> Array:
    """Returns half the spacing of a format's values at sizes that are not NaN."""
    xp = module_of(size)
    bits = xp.clip(size, fmt.least_normal, fmt.max).view(xp.int64) & _EXPONENT
    return bits.view(xp.float64) * 2.0**-fmt.precision


def error_of_rounding(size: Array, fmt: Format) -> Array:
    """Returns the largest error of rounding numbers of at most a size to a format: of all of it, where it may become 0."""
    return module_of(size).minimum(size, half_ulp(size, fmt))


def gathered(values: Array, index: Array) -> Array:
    """Returns the elements of each row at columns, [rows, 1]."""
    xp = module_of(values)
    return xp.take_along_axis(values, index, axis=1) if xp is np else xp.take_along_dim(values, index, dim=1)


@dataclass(frozen=True, slots=True)
class Number:
    """Numbers of any sign, computed with an error of at most ``off + relative |value|``."""

    value: Array
    model: Model
    off: Array | float = 0.0
    """An absolute error; the float 0 where there is none, so that what is exact costs no pass over an array."""
    relative: float = 0.0

    @classmethod
    def read(cls, values: Array, model: Model) -> "Number":
        """Takes logits as they are, or rounded where an arithmetic multiplies them by a scale or by log2(e) first."""
        return cls(values, model, relative=model.scaling + model.prescaling)

    @property
    def has_off(self) -> bool:
        """True if there is an absolute error."""
        return not (isinstance(self.off, float) and self.off == 0.0)

    @property
    def error(self) -> Array | float:
        """The largest absolute error."""
        return self.off + abs(self.value) * self.relative if self.relative else self.off

    def __add__(self, other: "Number") -> "Number":
        """Adds in one rounding, which is that of the computed sum."""
        return self._rounded_once(self.value + other.value, other)

    def __sub__(self, other: "Number") -> "Number":
        """Subtracts in one rounding."""
        return self._rounded_once(self.value - other.value, other)

    def _rounded_once(self, value: Array, other: "Number") -> "Number":
        unit = self.model.roundoff
        return Number(value, self.model, (self.error + other.error) * (1 + unit), unit)

    # Products and sums of numbers of any sign, as backwards and losses have them.

    @classmethod
    def given(cls, values: Array, model: Model) -> "Number":
        """Takes operands as they are, but for subnormal ones, which may be flushed."""
        return cls(values, model, model.underflow)

    def __mul__(self, other: "Number") -> "Number":
        """Multiplies in one rounding; a product may underflow."""
        value, model = self.value * other.value, self.model
        if model is EXACT:
            return Number(value, model)
        ours, theirs, unit, off = 1 + self.relative, 1 + other.relative, model.roundoff, model.underflow
        # An error of 0 is no factor, since numbers may be infinite.
        if self.has_off:
            off = off + self.off * abs(other.value) * (theirs * (1 + unit))
        if other.has_off:
            off = off + other.off * (abs(self.value) * ours + self.off) * (1 + unit)
        # No difference from 1, in which float64 would lose its own roundoff.
        relative = self.relative + other.relative * ours
        return Number(value, model, off, relative + unit * (1 + relative))

    def __neg__(self) -> "Number":
        """Changes the sign."""
        return replace(self, value=-self.value)

    def at(self, index: Array) -> "Number":
        """Returns the number of each row at a column, [rows, 1]."""
        off = self.off if isinstance(self.off, float) else gathered(self.off, index)
        return replace(self, value=gathered(self.value, index), off=off)

    def sum(self, *, in_any_order: bool = False) -> "Number":
        """Adds up each row in any order that the model allows, or in any, one after the other as well, [rows, 1]."""
        value, model, columns = self.value.sum(axis=1, keepdims=True), self.model, self.value.shape[1]
        if model is EXACT:
            return Number(value, model)
        error = self.error + module_of(value).zeros_like(self.value) + model.underflow
        total = error.sum(axis=1, keepdims=True)
        lanes, unit = (1, max(model.addition, model.roundoff)) if in_any_order else (model.lanes, model.addition)
        grown = math.expm1(min(depth(columns, lanes) * unit, LARGEST_EXPONENT))
        off = total + grown * (abs(self.value).sum(axis=1, keepdims=True) + total)
        return Number(value, model, off * (1 + model.denominator), model.denominator)

    def in_format(self, fmt: Format) -> "Number":
        """Rounds to the format of the result, as a tensor between two kernels is, if numbers are not of that format anyway."""
        if not self.model.rounds_result:
            return self
        error = self.error
        return Number(self.value, self.model, error + error_of_rounding(abs(self.value) + error, fmt))

    def power(self) -> "Positive":
        """Takes exponentials of numbers from which no maximum is subtracted, times log2(e) first in any case."""
        return replace(self, relative=self.relative + self.model.prescaling).exp()

    # Steps of logarithms.

    def rounded(self, roundings: float, factor: Array | float = 1.0) -> "Number":
        """Multiplies by an exact factor, with so many roundings of the factor and of products."""
        by = roundings * self.model.roundoff
        value = self.value if isinstance(factor, float) and factor == 1 else self.value * factor
        return Number(value, self.model, self.off * abs(factor) * (1 + by), self.relative + by * (1 + self.relative))

    def scaled(self, factor: float, roundings: float = 4.0) -> "Number":
        """Multiplies logits by a scale, whose roundings are those that an arithmetic may declare of them already.

        It rounds the scale, its product with log2(e), that constant, and the product with the logit.
        """
        relative = max(self.relative, roundings * self.model.roundoff + self.model.prescaling)
        value = self.value if factor == 1 else self.value * factor
        return replace(self, value=value, off=self.off * abs(factor), relative=relative)

    def in_base_two(self) -> "Number":
        """Multiplies a difference by log2(e); the unit stays that of base e."""
        return replace(self, relative=self.relative + self.model.product * (1 + self.relative))

    def max(self) -> "Number":
        """Takes each row's maximum, which errs as its own number does, since value + error grows with the value."""
        off = self.off if isinstance(self.off, float) else largest(self.off, -1)
        return Number(largest(self.value, -1), self.model, off, self.relative)

    def exp(self) -> "Positive":
        """Takes exponentials of differences from a maximum, in base 2 but for a library's function.

        The exponential of a difference that is exactly 0 is 1. One that is computed from logits with errors need not be, nor be equal to
        another of the same value: a fused multiply and add may leave the maximum's own rounding error there.
        """
        xp, model = module_of(self.value), self.model
        if model is EXACT:
            return Positive(xp.exp(self.value), 0.0, model)
        distance = xp.clip(abs(self.value), None, VANISHED)
        errors = distance * (self.relative + model.product * (1 + self.relative))
        if not self.has_off:
            # A product of a flag and a number is float32 in torch, that of a sign is not.
            errors += xp.sign(distance) * model.exponential
        else:
            errors += self.off * (1 + model.product) + model.exponential
            # Whatever the error, the exponential of -inf is 0.
            errors = xp.clip(errors, None, np.finfo(np.float64).max)
        return Positive(xp.exp(self.value), errors, model, is_rough=self.has_off)


def either(*forms: Number) -> Number:
    """Returns the first of forms of one number, with the largest of their errors."""
    first, *others = forms
    error = first.error
    for other in others if first.model is not EXACT else ():
        error = module_of(first.value).maximum(error, other.error)
    return Number(first.value, first.model, error)


def total(*terms: Number) -> Number:
    """Adds up some numbers in any order: each sum but the last may be as large as the sizes of all."""
    model, value = terms[0].model, sum(term.value for term in terms)
    if model is EXACT:
        return Number(value, model)
    error, roundings = sum(term.error for term in terms), (len(terms) - 2) * model.roundoff
    if roundings:
        error = error + roundings * sum(abs(term.value) + term.error for term in terms)
    return Number(value, model, error * (1 + model.roundoff), model.roundoff)


@dataclass(frozen=True, slots=True)
class Positive:
    """Positive numbers, computed within a factor of exp(``log``) either way, and but for what underflows."""

    value: Array
    log: Array | float
    """The largest error; the float 0 where a formula is to give its values alone."""
    model: Model
    is_rough: bool = False
    """True if errors have no limit but that of the logits' own size."""
    exponent: Array | None = None
    """The values' logarithms, where errors may make numbers of what float64 does not hold; None where nothing may."""

    def __truediv__(self, other: "Positive") -> "Positive":
        """Divides."""
        value, log = self.value / other.value, self.log + (other.log + self.model.division)
        exponent = None if self.exponent is None else self.exponent - module_of(value).log(other.value)
        return replace(self, value=value, log=log, exponent=exponent)

    def number(self) -> Number:
        """Returns the same with absolute errors, and those of an underflow."""
        if isinstance(self.log, float):
            return Number(self.value, self.model)
        xp = module_of(self.value)
        off = self.value * xp.expm1(xp.clip(self.log, None, LARGEST_EXPONENT))
        return Number(self.value, self.model, off + self.model.underflow)

    def sum(self, errors: float | None = None) -> "Positive":
        """Adds up each row in any order that the model allows, rescaled as a running sum is.

        The mean of ``log`` itself would bound how far a sum can fall, but not how far it can rise: exp is convex. Up to 1, exp(e) - 1 is
        at most e + e^2. Each row chooses by itself, so that its bound does not depend on other rows. ``errors`` are those of the additions,
        where they are not the model's.
        """
        total = self.value.sum(axis=-1, keepdims=True)
        errors = self.model.summing(self.value.shape[-1]) if errors is None else errors
        return Positive(total, self.growth() + errors, self.model)

    def growth(self) -> Array | float:
        """Returns the logarithm of exp(log)'s mean weighted by the values, [rows, 1]: the error of an exact sum."""
        if isinstance(self.log, float):
            return self.log
        xp, rise = module_of(self.value), self._rise(LARGEST_EXPONENT).sum(axis=-1, keepdims=True)
        growth = xp.log1p(rise / self.value.sum(axis=-1, keepdims=True))
        if self.exponent is None:
            return growth
        most = largest(self.log + self.exponent, -1)
        return xp.where(most > UNKNOWN, most + math.log(max(1, self.value.shape[-1])), growth)

    def shares(self, most: float = 0.0) -> Number:
        """Takes shares of a sum with their absolute errors: whatever the exponents are, none is computed above exp(most)."""
        return Number(self.value, self.model, 0.0 if isinstance(self.log, float) else self._rise(most))

    def _rise(self, most: float) -> Array:
        """The largest errors above the values, and so below them too; what float64 does not hold is at most exp(most)."""
        xp = module_of(self.value)
        if self.is_rough or self.model.exponent * VANISHED + self.model.exponential > 1:
            found = xp.expm1(xp.clip(self.log, None, LARGEST_EXPONENT))
        else:
            found = self.log * self.log
            found += self.log
        found *= self.value
        if self.exponent is not None:
            lost = (self.log > UNKNOWN) | (self.exponent < -LARGEST_EXPONENT)
            found = xp.where(lost, xp.exp(xp.clip(self.log + self.exponent, None, most)), found)
        return found

    def logarithm(self) -> Number:
        """Takes logarithms, of which a function's own error is relative to what it computes."""
        unit = self.model.roundoff
        off = self.log * (1 + LOGARITHM * unit) + NEXT_TO_ONE * unit
        return Number(module_of(self.value).log(self.value), self.model, off, LOGARITHM * unit)
