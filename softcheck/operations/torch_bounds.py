"""Exact values and limits of an operation on any device, from torch's float64 and the operation's own functions.

docs/bounds.md, section 29, derives how far float64 is off.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from oracles.formats import Format
from softcheck.operations.bounds import Model
from softcheck.operations.expression import half_ulp
from softcheck.operations.operation import Exact, Limits, Operation
from softcheck.operations.ulp import counts_as_power

_ABOVE = 1.0 + 2.0**-46
"""Factor that leads a float64 result over the power of two next to it."""
_FRACTION_BITS, _BIAS = 52, 1023
_EXPONENT = 0x7FF << _FRACTION_BITS
_UNIT = 2.0**-53


class Exponentials(NamedTuple):
    """The exponentials of a matrix of logits, float64; NaN in rows with NaN, with +inf or of -inf alone."""

    top: torch.Tensor
    """The largest scaled logit of each row, [rows, 1]."""
    below: torch.Tensor
    """Scaled logits less the row's largest, [rows, columns], at most 0."""
    terms: torch.Tensor
    """exp(below), [rows, columns]."""
    total: torch.Tensor
    """The sum of the terms, [rows, 1]."""


def exponentials(x: torch.Tensor, scale: float = 1.0) -> Exponentials:
    """Returns the exponentials of ``scale * x`` for logits of up to 32 bits, [rows, columns]."""
    # The subtraction converts as it reads, which a conversion beforehand would take another pass for.
    top = x.amax(dim=1, keepdim=True).to(torch.float64)
    below = torch.sub(x, top)
    if scale != 1.0:
        below, top = below.mul_(scale), top * scale
    terms = below.exp()
    return Exponentials(top, below, terms, terms.sum(dim=1, keepdim=True))


def summing_error(columns: int) -> float:
    """Returns the relative error of a float64 sum of exponentials, with that of the exponentials and of its logarithm.

    docs/bounds.md, section 29, derives it.
    """
    return _UNIT * (columns / 32 + 80 + 4 * math.log(max(2, columns)))


def of_rows(answers: torch.Tensor, columns: int, fmt: Format) -> Exact:
    """Returns one answer for each row, [rows, 1], as exact as sums of that many columns are."""
    return Exact(answers, 8 * summing_error(columns) * 2.0**fmt.precision)


@dataclass(frozen=True)
class ScaledTensor:
    """Exact values in units of their ULPs, as far as ``Operation.bounds`` asks for ``ulp.Scaled``."""

    fmt: Format
    high: torch.Tensor
    ulp: torch.Tensor
    per_ulp: torch.Tensor

    def in_ulps(self, absolute: float | torch.Tensor) -> torch.Tensor:
        """Numbers in units of each ulp(r)."""
        return self.per_ulp * absolute


def limits_of(operation: Operation, x: torch.Tensor, fmt: Format, model: Model) -> Limits:
    """Returns exact values and the limits by an arithmetic of a matrix [rows, columns]; ``fmt`` is the output's format."""
    if operation.limits is not None:
        return operation.limits(x, fmt, model)
    assert operation.on_device is not None
    exact, uncertainty = operation.on_device(x, fmt)
    values, size = x.to(torch.float64), exact.abs()
    # Its functions are written for arrays and tensors.
    of: Any = operation
    if operation.scale is not None:
        scale = of.scale(values, exact, fmt)
        size = torch.maximum(size, torch.where(scale.isfinite(), scale, 0.0))
    per_ulp = inverse_ulp(size, fmt, of_scale=operation.scale is not None)
    allowed = of.bounds(values, ScaledTensor(fmt, exact.abs() * per_ulp, 1.0 / per_ulp, per_ulp), exact, model)
    undefined = None if operation.undefined is None else of.undefined(values, fmt)
    return Limits(
        exact,
        per_ulp,
        allowed.elements,
        uncertainty,
        x if operation.logits is None else of.logits(values, fmt),
        allowed.sums if operation.sums_rows else None,
        allowed.below,
        None if undefined is None else undefined.repeat_interleave(len(exact) // len(x)),
    )


def inverse_ulp(size: torch.Tensor, fmt: Format, *, of_scale: bool = False) -> torch.Tensor:
    """Returns 1 / ulp(size), a power of two, of sizes that are at least 0.

    Next to a power of two it is that of the larger ULP. What is next to one is wider where the size is an operation's scale
    (``counts_as_power``).
    """
    bits = (size * (counts_as_power(fmt) if of_scale else _ABOVE)).clamp_(min=fmt.least_normal).view(torch.int64)
    largest = (2 * _BIAS + fmt.precision - 1) << _FRACTION_BITS
    return torch.rsub(bits.bitwise_and_(_EXPONENT), largest).view(torch.float64)


def with_rounding(errors: torch.Tensor, answers: torch.Tensor, fmt: Format) -> torch.Tensor:
    """Returns absolute errors with that of the last rounding, as ``logsumexp.bounds_of`` does: none where there is no error."""
    return errors + torch.where(errors > 0, half_ulp(answers.abs() + errors, fmt), 0.0)
