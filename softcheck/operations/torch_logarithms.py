"""Exact values and limits of operations that take the logarithm of a row's sum, in torch's float64 on any device.

The formulas are those of ``log_softmax``, ``logsumexp`` and ``cross_entropy``. Of each exact value float64 is off by at most
``torch_bounds.summing_error`` times the size that its ULP is of (docs/bounds.md, section 26).
"""

import torch

from oracles.formats import FLOAT32, Format
from softcheck.operations import bounds
from softcheck.operations.log_softmax import LOGARITHM, NEXT_TO_ONE, SECOND_ORDER, SUMMED
from softcheck.operations.operation import Limits
from softcheck.operations.targets import of_tensor
from softcheck.operations.torch_bounds import (
    Exponentials,
    exponentials,
    half_ulp,
    inverse_ulp,
    of_logits,
    summing_error,
    weighted_growth,
)


def log_softmax_limits(
    x: torch.Tensor, fmt: Format, model: bounds.Model | None, *, strict: bool = False, scale: float = 1.0
) -> Limits:
    """Returns exact values, and limits by an arithmetic, of the log-softmax over the columns of ``scale * x``."""
    found = exponentials(x, scale)
    logarithm = found.total.log()
    exact = found.below - logarithm
    size = exact.neg()
    per_ulp = inverse_ulp(size.clamp(min=1.0), fmt, strict=strict)
    uncertainty = summing_error(x.shape[1]) * 2.0**fmt.precision
    if model is None:
        return Limits(exact, per_ulp, None, None, uncertainty)
    common = _of_logarithm(x, found, model, scale) + model.underflow
    # c d + 2 rho |r|, where d = |r| - L.
    error = size * ((model.exponent + 2 * model.roundoff) * SECOND_ORDER)
    error += common - logarithm * (model.exponent * SECOND_ORDER)
    if model.rounds_logits:
        error += of_logits(x, found, model, scale).mul_(SECOND_ORDER)
    if model.rounds_result:
        error += half_ulp(size.add_(error), fmt)
    growth = torch.expm1(error.clamp(max=bounds.LARGEST_EXPONENT)).mul_(found.terms)
    sums = growth.sum(dim=1) / found.total[:, 0] + SUMMED
    return Limits(exact, per_ulp, error.mul_(per_ulp), sums.clamp_(max=x.shape[1] + 1.0), uncertainty)


def logsumexp_limits(x: torch.Tensor, fmt: Format, model: bounds.Model | None, *, strict: bool = False) -> Limits:
    """Returns exact values, and limits by an arithmetic, of the log-sum-exp over the columns of ``x``, [rows, 1]."""
    found = exponentials(x)
    logarithm = found.total.log()
    exact = torch.where(found.top.isfinite(), found.top + logarithm, found.top)
    size = found.top.abs()
    return _of_rows(x, fmt, model, found, exact, size + logarithm, size, strict=strict)


def cross_entropy_limits(
    x: torch.Tensor,
    fmt: Format,
    model: bounds.Model | None,
    *,
    strict: bool = False,
    ignored: int | None,
    smoothing: float,
) -> Limits:
    """Returns exact values, and limits by an arithmetic, of the cross-entropy of ``x`` and its own targets, [rows, 1]."""
    found = exponentials(x)
    logarithm = found.total.log()
    index = of_tensor(x, ignored)[:, None]
    left_out = index < 0
    picked = x.gather(1, index.clamp(min=0)).to(torch.float64).masked_fill_(left_out, 0.0)
    exact = (found.top - picked) + logarithm
    size = found.top.abs() + picked.abs()
    others, undefined, of_mean = size, None, torch.zeros_like(size)
    if smoothing:
        sizes = x.to(torch.float64).abs()
        of_mean, columns = sizes.mean(dim=1, keepdim=True), x.shape[1]
        mean = x.to(torch.float64).mean(dim=1, keepdim=True)
        masked = x.amin(dim=1, keepdim=True) == -torch.inf
        exact = torch.where(masked, torch.where(exact.isnan(), exact, torch.inf), exact + smoothing * (picked - mean))
        undefined = torch.where(sizes.isfinite(), sizes, 0.0).sum(dim=1) > FLOAT32.max / 2
        if model is not None:
            additions = 1.0 + bounds.depth(columns, model.lanes) * model.addition / model.roundoff
            others = 3.0 * size + (3.0 + additions * smoothing) * of_mean
    exact = torch.where(found.top == torch.inf, torch.nan, exact).masked_fill_(left_out, 0.0)
    scale = (size + of_mean + (exact - found.top + picked).abs()).masked_fill_(left_out, 1.0)
    found_limits = _of_rows(x, fmt, model, found, exact, scale, others, strict=strict)
    limits = found_limits.limits
    if limits is not None:
        # An ignored row's 0 is exact.
        limits = limits.masked_fill_(left_out, torch.finfo(torch.float64).tiny)
    return found_limits._replace(limits=limits, undefined=undefined)


def _of_logarithm(x: torch.Tensor, found: Exponentials, model: bounds.Model, scale: float = 1.0) -> torch.Tensor:
    """Returns the absolute errors of the logarithms of rows' sums, [rows, 1], as ``log_softmax.logarithm_errors`` does."""
    of_logarithm = found.total.log().mul_(LOGARITHM).add_(NEXT_TO_ONE).mul_(model.roundoff * SECOND_ORDER)
    return of_logarithm.add_(weighted_growth(x, found, model, scale)).add_(model.summing(x.shape[1]))


def _of_rows(
    x: torch.Tensor,
    fmt: Format,
    model: bounds.Model | None,
    found: Exponentials,
    exact: torch.Tensor,
    scale: torch.Tensor,
    others: torch.Tensor,
    *,
    strict: bool,
) -> Limits:
    """Returns the limits of one answer for each row, as ``logsumexp.row_bounds`` does; ``scale`` is what the ULP is of."""
    columns = x.shape[1]
    size = torch.where(scale.isfinite(), torch.maximum(scale, exact.abs()), 1.0)
    per_ulp = inverse_ulp(size.clamp_(min=1.0), fmt, strict=strict)
    uncertainty = 4 * summing_error(columns) * 2.0**fmt.precision
    if model is None:
        return Limits(exact, per_ulp, None, None, uncertainty)
    error = _of_logarithm(x, found, model)
    error += model.roundoff * (4 * others + 2 * exact.abs()) + model.underflow
    if model.rounds_logits:
        error += model.per_logit * others
    if model.rounds_result:
        error += half_ulp(exact.abs() + error, fmt)
    return Limits(exact, per_ulp, error * per_ulp, None, uncertainty)
