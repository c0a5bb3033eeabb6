"""Exact values and limits of an operation on any device, from torch's float64 and the operation's own functions.

docs/bounds.md#on-a-device derives how far float64 is off.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch

from oracles.formats import Format
from softcheck.numbers.model import Model
from softcheck.operations.operation import Exact, Limits, Operation
from softcheck.operations.ulp import counts_as_power

_ABOVE = 1.0 + 2.0**-46
"""Factor that leads a float64 result over the power of two next to it."""
_FRACTION_BITS, _BIAS = 52, 1023
_EXPONENT = 0x7FF << _FRACTION_BITS
_UNIT = 2.0**-53


def summing_error(columns: int) -> float:
    """Returns the relative error of a float64 sum of exponentials, with that of the exponentials and of its logarithm.

    docs/bounds.md#on-a-device derives it.
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
    found = limits_by(operation, x, fmt, model)
    return found if operation.sums_rows else found._replace(sums=None)


def limits_by(of: Any, x: torch.Tensor, fmt: Format, model: Model) -> Limits:
    """Returns the same by an object that has an operation's functions, which are written for arrays and tensors."""
    exact, uncertainty = of.on_device(x, fmt)
    values, size, scale = x.to(torch.float64), exact.abs(), getattr(of, "scale", None)
    if scale is not None:
        least = scale(values, exact, fmt)
        size = torch.maximum(size, torch.where(least.isfinite(), least, 0.0))
    per_ulp = inverse_ulp(size, fmt, of_scale=scale is not None)
    allowed = of.bounds(values, ScaledTensor(fmt, exact.abs() * per_ulp, 1.0 / per_ulp, per_ulp), exact, model)
    undefined = None if of.undefined is None else of.undefined(values, fmt)
    range_of = getattr(of, "range_of", None)
    least, most = (None, None) if range_of is None else range_of(values, fmt, model)
    return Limits(
        exact,
        per_ulp,
        allowed.elements,
        uncertainty,
        x if of.logits is None else of.logits(values, fmt),
        allowed.sums,
        allowed.below,
        None if undefined is None else undefined.repeat_interleave(len(exact) // len(undefined)),
        least,
        most,
    )


def joined_limits(tiles: list[Limits], rows: int) -> Limits:
    """Returns the limits of all queries of so many heads, from those of some queries of each head at a time; without sums."""
    if len(tiles) == 1:
        return tiles[0]._replace(sums=None)

    def joined(parts: tuple[Any, ...]) -> Any:
        by_head = [part.unflatten(0, (rows, -1)) for part in parts if part is not None]
        return torch.cat(by_head, dim=1).flatten(0, 1) if by_head else None

    return Limits(*map(joined, zip(*tiles, strict=True)))._replace(sums=None)


def inverse_ulp(size: torch.Tensor, fmt: Format, *, of_scale: bool = False) -> torch.Tensor:
    """Returns 1 / ulp(size), a power of two, of sizes that are at least 0.

    Next to a power of two it is that of the larger ULP. What is next to one is wider where the size is an operation's scale
    (``counts_as_power``).
    """
    bits = (size * (counts_as_power(fmt) if of_scale else _ABOVE)).clamp_(min=fmt.least_normal).view(torch.int64)
    largest = (2 * _BIAS + fmt.precision - 1) << _FRACTION_BITS
    return torch.rsub(bits.bitwise_and_(_EXPONENT), largest).view(torch.float64)
