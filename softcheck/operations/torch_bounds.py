"""Softmax's exact values and limits on any device: the formula of ``softcheck.operations.bounds`` in torch's float64.

Rows with special values have no meaning. Where every probability is 0 in float64, the few kernels that underflow less are
not allowed more here.
"""

import math

import torch

from oracles.formats import Format
from softcheck.operations import bounds
from softcheck.operations.operation import Limits

_ABOVE, _BELOW = 1.0 + 2.0**-46, 1.0 - 2.0**-30
"""Factors that lead a float64 softmax over the power of two next to it."""
_FRACTION_BITS, _BIAS = 52, 1023


def softmax_limits(x: torch.Tensor, fmt: Format, model: bounds.Model | None, *, strict: bool = False) -> Limits:
    """Returns exact values, and limits by an arithmetic, of the softmax over the columns of ``x``.

    Next to a power of two the ULP is the larger of two, so that no error seems larger than it is. With ``strict`` it is
    the smaller, and a limit is that of the stricter side of the exact value: what keeps it is right beyond doubt, as far
    as float64 tells.
    """
    logits = x.to(torch.float64)
    exact = torch.softmax(logits, dim=1)
    # 1 / ulp(r), a power of two, from the exponent field of r.
    exponent = ((exact * (_BELOW if strict else _ABOVE)).view(torch.int64) >> _FRACTION_BITS).clamp_(
        min=fmt.min_exponent + _BIAS
    )
    per_ulp = ((2 * _BIAS + fmt.precision - 1 - exponent) << _FRACTION_BITS).view(torch.float64)
    if model is None:
        return Limits(exact, per_ulp, None, None)

    columns = x.shape[1]
    top = logits.amax(dim=1, keepdim=True)
    distance = (top - logits).clamp_(max=bounds.VANISHED)
    left_at_maximum: torch.Tensor | float = 0.0
    if model.rounds_logits:
        errors = (logits.abs() + top.abs()).mul_(model.per_logit).add_(model.exponential)
        if not model.prescaled:
            errors += distance * model.exponent
        left_at_maximum = top.abs() * model.left_at_maximum + model.exponential
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
    masked = logits == -math.inf
    rounding = torch.full_like(limits, 0.5)
    if model.rounds_result:
        rounding = torch.where(limits > 0.5, torch.exp(errors), 0.5 + 0.5 * errors)
        limits += rounding
    if strict and (model.rounds_logits or model.exponent * bounds.VANISHED + shared > bounds.ONE_SIDED):
        least = in_ulps * torch.exp(-errors)
        below = in_ulps - least + underflown
        if model.rounds_result:
            below += least * fmt.unit_roundoff
        limits = torch.where(errors > bounds.ONE_SIDED, torch.minimum(limits, below), limits)
    limits = torch.minimum(limits, 2.0 * per_ulp).masked_fill_(masked, 0.0)
    of_sum = torch.expm1((2.0 * weighted[:, 0] if model.rescale else 0.0) + torch.full_like(top[:, 0], shared))
    sums = of_sum + ((rounding / per_ulp).masked_fill_(masked, 0.0).sum(dim=1) + columns * model.underflow)
    return Limits(exact, per_ulp, limits, sums.clamp_(max=columns + 1.0))
