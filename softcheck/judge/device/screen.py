"""A quick pass for rows that keep their bounds beyond doubt, in plain torch on their device.

The judge decides the other rows. The pass needs no kernel of its own, so that a thousand widths cost no compilation.
"""

import torch

from oracles.formats import FLOAT64, Format
from softcheck.judge.judge import STANDARD
from softcheck.operations import bounds
from softcheck.operations.arithmetic import Arithmetic

_CHUNK_ELEMENTS = 1 << 24
"""A dozen float64 temporaries of that size take 1.6 GB."""

_LARGEST_DISTANCE = 500.0
"""Distance from the row's maximum at which farther logits are counted. Their probabilities are below 2^-721, and don't
show beside half an ULP of any format."""

_REFERENCE = 2.0**-30
"""Relative error of torch's float64 softmax, and of its sums of up to 2^21 terms, generously."""

_MOST = 1e300
"""Finite, and far above any logarithmic error with a meaning."""

_ARITHMETIC = 1.0 - 2.0**-10

_FRACTION_BITS, _BIAS = 52, 1023
"""Properties of float64."""


def passing(x: torch.Tensor, y: torch.Tensor, fmt: Format, arithmetic: Arithmetic = STANDARD) -> torch.Tensor:
    """Rows of ``y`` that ``softcheck.judge.judge.judge`` would surely pass as the softmax of ``x``: bool, shape [rows].

    ``arithmetic`` is the arithmetic that the judge uses. ``x`` and ``y`` are [rows, columns] of the format's dtype on
    one device. No row of float64 passes, and no row with NaN, with +inf or of -inf alone.

    The allowance is less than that of softcheck/operations/bounds.py: exp(B) - 1 is at least B; the mean over g of exp(A) is
    at least exp(sum g A), since exp is convex; and under the standard contract the underflow's terms, which are never
    negative, are left out. ULPs are those of g (1 - 2^-30), so that near a power of two the larger of two ULPs never
    counts.
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
    """Checks rows in as few operations as possible: each is a launch, and one width has several dozen of them."""
    constants = bounds.model(arithmetic, fmt)
    logits, output = x.to(torch.float64), y.to(torch.float64)
    top = logits.amax(dim=1, keepdim=True)
    distance = (top - logits).clamp(max=_LARGEST_DISTANCE)
    exact = torch.softmax(logits, dim=1)
    half_ulp = _half_ulp(exact * (1.0 - _REFERENCE), fmt)

    longest = bounds.depth(x.shape[1], constants.lanes)
    additions = longest * (constants.addition + constants.rescale) + constants.denominator + constants.division
    exponent, exponential = constants.exponent * _ARITHMETIC, constants.exponential * _ARITHMETIC
    if constants.rounds_logits:
        per_logit = constants.scaling * _ARITHMETIC + (exponent if constants.prescaled else 0.0)
        # A masked logit weighs nothing, and infinity times nothing would be NaN.
        above = ((logits.abs() + top.abs()) * per_logit + exponential).clamp(max=_MOST)
        if not constants.prescaled:
            above += distance * exponent
    else:
        above = torch.add(distance * exponent, distance > 0, alpha=exponential)
    logarithmic = above + ((exact * above).sum(dim=1, keepdim=True) + (additions * _ARITHMETIC - _REFERENCE))
    rounding = half_ulp
    if arithmetic != STANDARD:
        # If B is large, the judge allows less below g than above it: the remainder after g exp(-B) and its own
        # rounding.
        rounding = half_ulp * torch.exp(-logarithmic)
        logarithmic = -torch.expm1(-logarithmic)
    allowed = torch.addcmul(rounding, exact, logarithmic) if constants.rounds_result else exact * logarithmic
    if arithmetic != STANDARD:
        # Underflow of 16-bit steps shows in half of all rows. The judge allows no error above 2, and calls what is far from
        # [0, 1] out of range.
        allowed = (allowed + constants.underflow * _ARITHMETIC).clamp(max=1.0)
        allowed = allowed.masked_fill(logits == -float("inf"), 0.0)
    right = ((output - exact).abs() <= allowed) & (output >= 0)

    of_sum = half_ulp.sum(dim=1) * (1.0 - _REFERENCE) + (additions * _ARITHMETIC - 2 * _REFERENCE)
    if arithmetic != STANDARD:
        of_sum = of_sum.clamp(max=float(x.shape[1]))
    summed = (output.sum(dim=1) - 1.0).abs() <= of_sum
    return right.all(dim=1) & summed


def _half_ulp(values: torch.Tensor, fmt: Format) -> torch.Tensor:
    """2^(max(floor(log2 r), emin) - p) of positive float64 values, put together from their exponents' bits."""
    exponent = torch.clamp(values.view(torch.int64) >> _FRACTION_BITS, min=fmt.min_exponent + _BIAS)
    return ((exponent - fmt.precision) << _FRACTION_BITS).view(torch.float64)
