"""Rating of rows' outputs: the largest error over bound, or ULP error, of many rows at once, in float64 on any device.

The rating serves ranking only. The reference is torch's float64 softmax. If it lies within a relative 2^-46 below a
power of two, the larger ULP is taken, so that no row seems worse than it is for being near the power. Reported figures
come from the judge, and the tests compare these ratings with them.
"""

import math

import torch

from oracles.formats import Format
from softcheck.operations import bounds
from softcheck.operations.operation import OnDevice
from softcheck.search.objective import Objective

_CHUNK = {"cpu": 1 << 20, "cuda": 1 << 25}
"""Elements rated at once: a few dozen float64 temporaries of that size."""


def rate(
    x: torch.Tensor,
    y: torch.Tensor,
    fmt: Format,
    model: bounds.Model,
    objective: Objective,
    on_device: OnDevice,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the largest figure of each row and its column, both [rows]; float64 and int64.

    ``x`` and ``y`` are [rows, columns] of the format's dtype, float64 excepted. The
    figure is infinite if an output is not finite where the answer is, or not 0 at a masked logit. Rows whose answer
    follows a convention (NaN, +inf, all -inf) give -1.
    """
    step = max(1, _CHUNK[x.device.type] // max(1, x.shape[1]))
    parts = [
        _rate(x[first : first + step], y[first : first + step], fmt, model, objective, on_device)
        for first in range(0, len(x), step)
    ]
    return torch.cat([value for value, _ in parts]), torch.cat([column for _, column in parts])


def _rate(
    x: torch.Tensor, y: torch.Tensor, fmt: Format, model: bounds.Model, objective: Objective, on_device: OnDevice
) -> tuple[torch.Tensor, torch.Tensor]:
    logits, output = x.to(torch.float64), y.to(torch.float64)
    top = logits.amax(dim=1, keepdim=True)
    exact, per_ulp, limits, *_ = on_device(x, fmt, model if objective == "bound" else None)
    figure = ((output - exact) * per_ulp).abs_()
    masked = logits == -math.inf
    if limits is not None:
        figure /= limits
    figure.masked_fill_(masked, 0.0)
    figure.masked_fill_(~torch.isfinite(output) | (masked & (output != 0)), math.inf)
    value, column = figure.max(dim=1)
    return value.masked_fill_(~torch.isfinite(top[:, 0]), -1.0), column
