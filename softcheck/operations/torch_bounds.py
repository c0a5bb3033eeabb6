"""Softmax's exact values and limits on any device: the formula of ``softcheck.operations.bounds`` in torch's float64.

Where every probability is 0 in float64, the few kernels that underflow less are not allowed more here. Other operations take
the exponentials, the mean of their errors, and ULPs from here.
"""

import math
from typing import NamedTuple

import torch

from oracles.formats import Format
from softcheck.operations import bounds
from softcheck.operations.expression import exponent_errors, half_ulp, mean_growth, of_logits
from softcheck.operations.operation import Limits
from softcheck.operations.ulp import counts_as_power

_ABOVE, _BELOW = 1.0 + 2.0**-46, 1.0 - 2.0**-30
"""Factors that lead a float64 result over the power of two next to it."""
_FRACTION_BITS, _BIAS = 52, 1023
_EXPONENT = 0x7FF << _FRACTION_BITS
_UNIT = 2.0**-53
_TINY = 2.0**-1022


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


def weighted_growth(x: torch.Tensor, found: Exponentials, model: bounds.Model, scale: float = 1.0) -> torch.Tensor:
    """Returns the logarithm of exp(A)'s mean weighted by the probabilities, [rows, 1], as ``bounds.logarithmic_errors`` does."""
    growth: torch.Tensor = mean_growth(
        exponent_errors(found.below, of_scaled(x, found, model, scale), model), found.terms, model
    )
    return growth


def of_scaled(x: torch.Tensor, found: Exponentials, model: bounds.Model, scale: float = 1.0) -> torch.Tensor | None:
    """Returns ``expression.of_logits`` of ``scale * x``, [rows, columns]; None for a model that rounds no logits."""
    return of_logits(x.to(torch.float64) * scale, found.top, model) if model.rounds_logits else None


def inverse_ulp(
    size: torch.Tensor,
    fmt: Format,
    *,
    strict: bool = False,
    least: float = 0.0,
    sign: float = 1.0,
    of_scale: bool = False,
) -> torch.Tensor:
    """Returns 1 / ulp(max(sign * size, least)), a power of two, of numbers whose ``sign`` is 1 or -1.

    Next to a power of two it is that of the larger ULP, with ``strict`` that of the smaller. What is next to one is wider
    where the size is an operation's scale (``counts_as_power``).
    """
    above = counts_as_power(fmt) if of_scale else _ABOVE
    bits = (size * (sign * (_BELOW if strict else above))).clamp_(min=max(least, fmt.least_normal)).view(torch.int64)
    largest = (2 * _BIAS + fmt.precision - 1) << _FRACTION_BITS
    return torch.rsub(bits.bitwise_and_(_EXPONENT), largest).view(torch.float64)


def with_rounding(errors: torch.Tensor, answers: torch.Tensor, fmt: Format) -> torch.Tensor:
    """Returns absolute errors with that of the last rounding, as ``logsumexp.bounds_of`` does: none where there is no error."""
    return errors + torch.where(errors > 0, half_ulp(answers.abs() + errors, fmt), 0.0)


def softmax_limits(
    x: torch.Tensor, fmt: Format, model: bounds.Model | None, *, strict: bool = False, scale: float = 1.0
) -> Limits:
    """Returns exact values, and limits by an arithmetic, of the softmax over the columns of ``scale * x``.

    Next to a power of two the ULP is the larger of two, so that no error seems larger than it is. With ``strict`` it is
    the smaller, and a limit is that of the stricter side of the exact value: what keeps it is right beyond doubt, as far
    as float64 tells.
    """
    logits = x.to(torch.float64)
    top = logits.amax(dim=1, keepdim=True)
    distance = (top - logits).mul_(scale)
    exact = torch.softmax(logits if scale == 1.0 else -distance, dim=1)
    per_ulp = inverse_ulp(exact, fmt, strict=strict)
    columns = x.shape[1]
    # An element of at least half a subnormal is no farther from the maximum than this.
    farthest = math.log(columns / fmt.least_subnormal) + 1
    uncertainty = (2 * summing_error(columns) + 4 * _UNIT * farthest) * 2.0**fmt.precision
    if model is None:
        return Limits(exact, per_ulp, None, None, uncertainty)

    masked = logits == -math.inf
    distance.clamp_(max=bounds.VANISHED)
    left_at_maximum: torch.Tensor | float = 0.0
    if model.rounds_logits:
        errors = (logits.abs() + top.abs()).mul_(model.per_logit * scale)
        errors += model.exponential + 2 * model.logit_error
        if not model.prescaled:
            errors += distance * model.exponent
        left_at_maximum = top.abs() * (model.left_at_maximum * scale) + model.exponential
    else:
        errors = torch.add(distance * model.exponent, distance > 0, alpha=model.exponential)
    errors.clamp_(max=bounds.LARGEST_EXPONENT)
    shared = model.shared(columns)
    weighted = torch.log1p((exact * torch.expm1(errors)).sum(dim=1, keepdim=True))
    errors = errors.add_(weighted + shared).clamp_(max=bounds.LARGEST_EXPONENT)

    in_ulps = exact * per_ulp
    limits = torch.expm1(errors).mul_(in_ulps)
    underflown: torch.Tensor | float = 0.0
    if model.underflow:
        common = torch.as_tensor(shared + left_at_maximum, dtype=torch.float64, device=x.device)
        underflown = per_ulp * (model.underflow * torch.exp(common.clamp(max=bounds.LARGEST_EXPONENT)))
        limits += underflown
    rounding = torch.full_like(limits, 0.5)
    if model.rounds_result:
        rounding = torch.where(limits > 0.5, torch.exp(errors), 0.5 + 0.5 * errors)
        limits += rounding
    limits = torch.minimum(limits, 2.0 * per_ulp).masked_fill_(masked, 0.0)
    below = None
    if model.rounds_logits or model.exponent * bounds.VANISHED + shared > bounds.ONE_SIDED:
        least = in_ulps * torch.exp(-errors)
        reached = in_ulps - least + underflown
        if model.rounds_result:
            reached += least * fmt.unit_roundoff
        # A sum that overflows makes every output 0.
        rises = (
            weighted + model.summing(columns) - exact.amax(dim=1, keepdim=True).clamp(min=_TINY).log() + left_at_maximum
        )
        far = (errors > bounds.ONE_SIDED) & (rises < math.log(model.largest_sum))
        below = torch.where(far, torch.minimum(limits, reached), limits)
        if strict:
            limits, below = torch.where(errors > bounds.ONE_SIDED, torch.minimum(limits, reached), limits), None
    of_sum = torch.expm1((2.0 * weighted[:, 0] if model.rescale else 0.0) + torch.full_like(top[:, 0], shared))
    sums = of_sum + ((rounding / per_ulp).masked_fill_(masked, 0.0).sum(dim=1) + columns * model.underflow)
    return Limits(exact, per_ulp, limits, sums.clamp_(max=columns + 1.0), uncertainty, below)
