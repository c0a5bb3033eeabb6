"""Rating of rows' outputs: the largest error over bound, or ULP error, of many rows at once, in float64 on any device.

The rating serves ranking only. The reference is ``Operation.on_device``. If it lies within a relative 2^-46 below a
power of two, the larger ULP is taken, so that no row seems worse than it is for being near the power. Reported figures
come from the judge, and the tests compare these ratings with them.
"""

import math

import torch

from oracles.formats import Format
from softcheck.operations import bounds, special
from softcheck.operations.operation import CERTAIN, OnDevice
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

    ``x`` is [rows, columns] of up to 32 bits, ``y`` an output for it, of ``fmt``: [rows, columns], or another number of answers
    for each row, whose column is then that of the row's largest logit. The figure is infinite if an output is not finite where
    the answer is, or is not the answer itself at a masked logit. Rows whose answer follows a convention (NaN, +inf, all -inf) or
    is nobody's promise, and those whose exact values float64 does not know, give -1.
    """
    step = max(1, _CHUNK[x.device.type] // max(1, x.shape[1], y.shape[1]))
    parts = [
        _rate(x[first : first + step], y[first : first + step], fmt, model, objective, on_device)
        for first in range(0, len(x), step)
    ]
    return torch.cat([value for value, _ in parts]), torch.cat([column for _, column in parts])


def _rate(
    x: torch.Tensor, y: torch.Tensor, fmt: Format, model: bounds.Model, objective: Objective, on_device: OnDevice
) -> tuple[torch.Tensor, torch.Tensor]:
    found = on_device(x, fmt, model if objective == "bound" else None)
    exact, logits = found.exact, x if found.logits is None else found.logits
    output = y.to(torch.float64).reshape(exact.shape)
    figure = ((output - exact) * found.per_ulp).abs_()
    if found.limits is not None:
        figure /= found.limits
    unlike = ~(output.isfinite() & exact.isfinite())
    # The answer rounds to infinity, or an arithmetic's own error may lead there.
    right = output.isinf() & (exact.abs() >= special.overflow(fmt)) & (output.signbit() == exact.signbit())
    of_logits = logits.shape == exact.shape and x.shape == y.shape
    if of_logits:
        unlike |= logits == -math.inf
    else:
        right |= output.isnan() & (exact == math.inf)
    figure.masked_fill_(unlike, math.inf).masked_fill_(right | (output == exact), 0.0)
    conventional = ~logits.amax(dim=1).isfinite()
    if found.undefined is not None:
        conventional |= found.undefined
    value, column = figure.masked_fill_(conventional[:, None], -1.0).view(len(x), -1).max(dim=1)
    unknown = value.isnan()
    if isinstance(found.uncertainty, torch.Tensor):
        unknown |= (found.uncertainty > CERTAIN).view(len(x), -1).any(dim=1)
    return value.masked_fill_(unknown, -1.0), column if of_logits else x.argmax(dim=1)
