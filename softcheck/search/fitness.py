"""Rating of rows' outputs: the largest error over bound, or ULP error, of many rows at once, in float64 on any device.

The rating serves ranking only. The reference is torch's float64 softmax. If it lies within a relative 2^-46 below a
power of two, the larger ULP is taken, so that no row seems worse than it is for being near the power. Reported figures
come from the judge, and the tests compare these ratings with them.
"""

import math

import torch

from oracles.formats import Format
from softcheck.judge import bounds
from softcheck.search.objective import Objective

_NEAR = 1.0 + 2.0**-46
_VANISHED = 800.0
_CHUNK = {"cpu": 1 << 20, "cuda": 1 << 25}
"""Elements rated at once: a few dozen float64 temporaries of that size."""


def rate(
    x: torch.Tensor, y: torch.Tensor, fmt: Format, model: bounds.Model, objective: Objective
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the largest figure of each row and its column, both [rows]; float64 and int64.

    ``x`` and ``y`` are [rows, columns] of the format's dtype, float64 excepted; ``model`` must not round logits. The
    figure is infinite if an output is not finite where the answer is, or not 0 at a masked logit. Rows whose answer
    follows a convention (NaN, +inf, all -inf) give -1.
    """
    step = max(1, _CHUNK[x.device.type] // max(1, x.shape[1]))
    parts = [
        _rate(x[first : first + step], y[first : first + step], fmt, model, objective)
        for first in range(0, len(x), step)
    ]
    return torch.cat([value for value, _ in parts]), torch.cat([column for _, column in parts])


def _rate(
    x: torch.Tensor, y: torch.Tensor, fmt: Format, model: bounds.Model, objective: Objective
) -> tuple[torch.Tensor, torch.Tensor]:
    logits, output = x.to(torch.float64), y.to(torch.float64)
    top = logits.amax(dim=1, keepdim=True)
    exact = torch.softmax(logits, dim=1)
    per_ulp = _per_ulp(exact, fmt)
    figure = ((output - exact) * per_ulp).abs_()
    masked = logits == -math.inf
    if objective == "bound":
        figure /= _limits(top - logits, exact, per_ulp, model)
    figure.masked_fill_(masked, 0.0)
    figure.masked_fill_(~torch.isfinite(output) | (masked & (output != 0)), math.inf)
    value, column = figure.max(dim=1)
    return value.masked_fill_(~torch.isfinite(top[:, 0]), -1.0), column


def _per_ulp(exact: torch.Tensor, fmt: Format) -> torch.Tensor:
    """1 / ulp(r), a power of two, from the exponent field of r."""
    exponent = ((exact * _NEAR).view(torch.int64) >> 52) - 1023
    exponent.clamp_(min=fmt.min_exponent)
    return ((1023 + fmt.precision - 1 - exponent) << 52).view(torch.float64)


def _limits(distance: torch.Tensor, exact: torch.Tensor, per_ulp: torch.Tensor, model: bounds.Model) -> torch.Tensor:
    """Bounds in ULPs, [rows, columns]: the formula of ``softcheck.judge.bounds``, in the same order."""
    columns = distance.shape[1]
    longest = bounds.depth(columns, model.lanes)
    additions = longest * model.addition + columns * model.underflow + model.denominator
    rescaling = longest * model.rescale
    distance = distance.clamp(max=_VANISHED)
    errors = model.exponent * distance + model.exponential * (distance > 0)
    weighted = torch.log1p((exact * torch.expm1(errors)).sum(dim=1, keepdim=True))
    common = weighted + (additions + model.division + rescaling)
    errors += common
    limit = torch.expm1(errors).mul_(exact).mul_(per_ulp)
    limit += per_ulp * model.underflow * torch.exp(common - weighted)
    if model.rounds_result:
        limit += torch.where(limit > 0.5, torch.exp(errors), 0.5 + 0.5 * errors)
    return torch.minimum(limit, 2.0 * per_ulp)
