"""A quick pass for rows that keep their bounds beyond doubt, in plain torch on their device.

The judge decides the other rows. The pass needs no kernel of its own, so that a thousand widths cost no compilation.
"""

from dataclasses import replace

import torch

from oracles.formats import FLOAT64, Format
from softcheck.judge.judge import STANDARD
from softcheck.operations import bounds
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.torch_bounds import softmax_limits

_CHUNK_ELEMENTS = 1 << 24
"""A dozen float64 temporaries of that size take 1.6 GB."""

_REFERENCE = 2.0**-30
"""Relative error of torch's float64 softmax, and of its sums of up to 2^21 terms, generously."""

_ARITHMETIC = 1.0 - 2.0**-10
_ERRORS = ("exponent", "exponential", "addition", "denominator", "rescale", "underflow", "scaling")


def passing(x: torch.Tensor, y: torch.Tensor, fmt: Format, arithmetic: Arithmetic = STANDARD) -> torch.Tensor:
    """Rows of ``y`` that ``softcheck.judge.judge.judge`` would surely pass as the softmax of ``x``: bool, shape [rows].

    ``arithmetic`` is the arithmetic that the judge uses. ``x`` and ``y`` are [rows, columns] of the format's dtype on
    one device. No row of float64 passes, and no row with NaN, with +inf or of -inf alone.

    The allowance is less than that of softcheck/operations/bounds.py: the arithmetic's errors are taken a little smaller,
    and the reference's own error is taken off.
    """
    rows, columns = x.shape
    if fmt == FLOAT64 or columns == 0:
        return torch.zeros(rows, dtype=torch.bool, device=x.device)
    step = max(1, _CHUNK_ELEMENTS // columns)
    if rows <= step:
        return _passing(x, y, fmt, arithmetic)
    return torch.cat(
        [_passing(x[first : first + step], y[first : first + step], fmt, arithmetic) for first in range(0, rows, step)]
    )


def _passing(x: torch.Tensor, y: torch.Tensor, fmt: Format, arithmetic: Arithmetic) -> torch.Tensor:
    exact, per_ulp, limits, sums, *_ = softmax_limits(x, fmt, _surely(bounds.model(arithmetic, fmt)), strict=True)
    assert limits is not None
    assert sums is not None
    output = y.to(torch.float64)
    difference = (output - exact).abs_()
    # The judge calls what is far from [0, 1] out of range, whatever the bound.
    right = (difference * per_ulp <= limits) & (output >= 0) & (difference <= 1)
    return right.all(dim=1) & ((output.sum(dim=1) - 1.0).abs() <= sums - 2 * _REFERENCE)


def _surely(model: bounds.Model) -> bounds.Model:
    """The model of a slightly better arithmetic, whose bound allows for the error of the reference."""
    fewer = {name: getattr(model, name) * _ARITHMETIC for name in _ERRORS}
    return replace(model, **fewer, division=model.division * _ARITHMETIC - _REFERENCE)
