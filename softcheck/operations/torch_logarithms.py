"""Exact values and limits of operations that take the logarithm of a row's sum, in torch's float64 on any device.

The formulas are those of ``log_softmax``, ``logsumexp`` and ``cross_entropy``. Of each exact value float64 is off by at most
``torch_bounds.summing_error`` times the size that its ULP is of (docs/bounds.md, section 29).
"""

from typing import NamedTuple

import torch

from oracles.formats import FLOAT32, Format
from softcheck.operations import bounds, softcap, weights
from softcheck.operations.expression import half_ulp, log_softmax_error, logarithm_error, logsumexp_error
from softcheck.operations.log_softmax import SUMMED
from softcheck.operations.operation import Limits
from softcheck.operations.row_loss import RowLoss
from softcheck.operations.torch_bounds import (
    Exponentials,
    exponentials,
    inverse_ulp,
    of_scaled,
    summing_error,
    weighted_growth,
    with_rounding,
)


def log_softmax_limits(
    x: torch.Tensor, fmt: Format, model: bounds.Model | None, *, strict: bool = False, scale: float = 1.0
) -> Limits:
    """Returns exact values, and limits by an arithmetic, of the log-softmax over the columns of ``scale * x``."""
    found = exponentials(x, scale)
    logarithm = found.total.log()
    exact = found.below - logarithm
    per_ulp = inverse_ulp(exact, fmt, strict=strict, least=1.0, sign=-1.0)
    uncertainty = summing_error(x.shape[1]) * 2.0**fmt.precision
    if model is None:
        return Limits(exact, per_ulp, None, None, uncertainty)
    common = _of_logarithm(x, found, model, scale)
    error = log_softmax_error(exact, logarithm, common, of_scaled(x, found, model, scale), model)
    if model.rounds_result:
        error += half_ulp(error - exact, fmt)
    growth = torch.expm1(error.clamp(max=bounds.LARGEST_EXPONENT)).mul_(found.terms)
    sums = growth.sum(dim=1) / found.total[:, 0] + SUMMED
    return Limits(exact, per_ulp, error.mul_(per_ulp), sums.clamp_(max=x.shape[1] + 1.0), uncertainty)


def logsumexp_limits(x: torch.Tensor, fmt: Format, model: bounds.Model | None, *, strict: bool = False) -> Limits:
    """Returns exact values, and limits by an arithmetic, of the log-sum-exp over the columns of ``x``, [rows, 1]."""
    found = exponentials(x)
    logarithm, size = found.total.log(), found.top.abs()
    exact = torch.where(found.top.isfinite(), found.top + logarithm, found.top)
    error = None
    if model is not None:
        error = logsumexp_error(exact, found.top, _of_logarithm(x, found, model), model)
    return _of_rows(fmt, model, exact, size + logarithm, error, x.shape[1], strict=strict)


class _Losses(NamedTuple):
    """Losses of rows before anything rounds them to a format, [rows, 1]; 0 where a row has no target, but for ``divisor``."""

    exact: torch.Tensor
    scale: torch.Tensor
    """The sizes of a loss's terms."""
    error: torch.Tensor | None
    """The largest error that an arithmetic makes; None if none was given."""
    divisor: torch.Tensor
    """The divisor of the first terms, infinite where a mean has no divisor."""
    whole: torch.Tensor
    """The sizes of the terms before anything divides them."""


def cross_entropy_limits(
    x: torch.Tensor, fmt: Format, model: bounds.Model | None, losses: RowLoss, *, strict: bool = False
) -> Limits:
    """Returns exact values, and limits by an arithmetic, of the losses of ``x`` and its own targets, [rows, 1].

    The formulas are those of ``softcheck.operations.row_loss``.
    """
    found = _losses(x, model, losses, 1, is_mean=False)
    limits = _of_rows(fmt, model, found.exact, found.scale, found.error, x.shape[1], strict=strict)
    limits = limits._replace(uncertainty=limits.uncertainty + _of_cap(losses, fmt))
    return limits if losses.is_plain and not losses.has_head else limits._replace(undefined=_undefined(x, losses))


def reduced_limits(
    x: torch.Tensor,
    fmt: Format,
    model: bounds.Model | None,
    losses: RowLoss,
    parts: int,
    *,
    is_mean: bool,
    strict: bool,
) -> Limits:
    """Returns the same of means or sums of losses, each of a matrix of ``parts`` rows that is made of a row of ``x``, [rows, 1].

    The formulas are those of ``softcheck.operations.reduction``.
    """
    rows = x.reshape(len(x) * parts, -1)

    def summed(each: torch.Tensor) -> torch.Tensor:
        return each.view(len(x), parts).sum(dim=1, keepdim=True)

    found = _losses(rows, model, losses, parts, is_mean=is_mean)
    exact, error = summed(found.exact), None
    if model is not None and found.error is not None:
        sizes = found.exact.abs()
        each = found.error
        if model.rounds_result:
            # A loss is rounded before it is divided.
            each = each + fmt.unit_roundoff * sizes + fmt.least_subnormal / found.divisor
        error = summed(each) + model.roundoff * ((parts + 4) * summed(sizes) + 2 * exact.abs())
    limits = _of_rows(fmt, model, exact, summed(found.scale), error, x.shape[1], strict=strict)
    size = summed(found.whole.nan_to_num(nan=0.0, posinf=0.0))
    lost = _undefined(rows, losses)
    lost = (lost | found.divisor[:, 0].isinf()).view(len(x), parts).any(dim=1) | (size[:, 0] > FLOAT32.max / 2)
    return limits._replace(undefined=lost, uncertainty=limits.uncertainty + _of_cap(losses, fmt))


def _of_cap(losses: RowLoss, fmt: Format) -> float:
    """Returns ULPs of the error that float64's own capped logits leave: of a log-sum-exp and a logit, times weights up to the largest."""
    return 4 * weights.LARGEST * softcap.RELATIVE * losses.softcap * 2.0**fmt.precision


def _losses(x: torch.Tensor, model: bounds.Model | None, losses: RowLoss, parts: int, *, is_mean: bool) -> _Losses:
    """Returns the losses of rows, divided as in the mean of so many ``parts`` if it is one."""
    columns, smoothing = x.shape[1], losses.smoothing
    chosen = losses.targets.of_tensor(x)[:, None]
    raw, model = x, None if model is None else losses.with_logits(model)
    x = _logits(x, losses)
    found = exponentials(x)
    top, logarithm = found.top, found.total.log()
    lse = top + logarithm
    left_out = losses.targets.left_out(chosen, columns)
    index = chosen.masked_fill(left_out, 0)
    picked = x.gather(1, index).to(torch.float64).masked_fill_(left_out, 0.0)
    of_column = torch.from_numpy(losses.weights(columns)).to(x.device)
    of_target = (1.0 - smoothing) * of_column[index]
    factor, smooth, smooth_size = of_target, torch.zeros_like(lse), torch.zeros_like(lse)
    if smoothing:
        weighted = x * of_column
        smooth, factor = smoothing * weighted.mean(dim=1, keepdim=True), of_target + smoothing * of_column.mean()
        smooth_size = smoothing * weighted.abs_().mean(dim=1, keepdim=True)
    first, last = _divisors(of_column[index], left_out, parts) if is_mean else (torch.ones_like(lse),) * 2
    is_infinite = (raw.amax(dim=1, keepdim=True) if losses.softcap else top) == torch.inf
    undivided = losses.z_loss * lse * lse
    square = undivided / last
    exact = (top - picked) + logarithm if losses.is_plain else factor * lse - of_target * picked - smooth
    exact = torch.where(is_infinite, torch.nan, exact / first + square)
    if not smoothing:
        exact.masked_fill_(is_infinite & (of_target > 0) & (picked != torch.inf), torch.inf)
    exact.masked_fill_(left_out, 0.0)
    if losses.targets.invalid == "nan":
        exact.masked_fill_(left_out & (chosen != losses.targets.ignored), torch.nan)
    size = factor * top.abs() + (of_target * picked).abs() + smooth_size
    whole = (size + factor * logarithm.abs()).clamp_(min=1.0)
    scale, whole = (
        (one + two).masked_fill_(left_out, 0.0) for one, two in ((whole / first, square), (whole, undivided))
    )
    if model is None:
        return _Losses(exact, scale, None, first, whole)
    of_lse = _of_logarithm(x, found, model)
    if model.rounds_logits:
        of_lse = of_lse + model.per_logit * top.abs() + model.logit_error
    if losses.z_loss:
        of_lse = of_lse + model.roundoff * (4.0 * top.abs() + 2.0 * lse.abs())
    sizes = size if losses.is_plain else 3.0 * (size + (factor * lse).abs())
    sizes = sizes / first + square
    error = (factor / first + 2.0 * losses.z_loss * (lse.abs() + of_lse) / last) * of_lse
    if model.rounds_logits:
        terms = (of_target * picked).abs() + smooth_size
        error += (model.per_logit * terms + model.logit_error * factor) / first
    if smoothing:
        summed = torch.maximum(smooth_size, (factor - of_target) * (lse + of_lse) - smooth)
        error += losses.summing(columns, model) * summed / first
    error += model.roundoff * (4.0 * sizes + 2.0 * exact.abs()) + model.underflow
    return _Losses(exact, scale, error.masked_fill_(left_out, 0.0), first, whole)


def _divisors(weighing: torch.Tensor, left_out: torch.Tensor, parts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the weights of a matrix's targets, and their number, for each of its rows; infinite where these are 0."""
    counted = (weighing.masked_fill(left_out, 0.0), (~left_out).to(torch.float64))
    sums = [each.view(-1, parts).sum(dim=1, keepdim=True).expand(-1, parts).reshape(-1, 1) for each in counted]
    first, last = (each.masked_fill(each == 0, torch.inf) for each in sums)
    return first, last


def _logits(x: torch.Tensor, losses: RowLoss) -> torch.Tensor:
    """Returns the logits of losses, scaled and capped; float64 where anything is done to them."""
    if losses.logit_scale != 1:
        x = x.to(torch.float64) * losses.logit_scale
    return softcap.capped_tensor(x, losses.softcap) if losses.softcap else x


def _largest_size(x: torch.Tensor) -> torch.Tensor:
    """Returns the largest size of a finite logit, [rows, 1]."""
    return torch.where(x.isfinite(), x.abs(), 0.0).amax(dim=1, keepdim=True).to(torch.float64)


def _undefined(x: torch.Tensor, losses: RowLoss) -> torch.Tensor:
    """Returns the rows of which nothing is demanded, [rows], as ``RowLoss.undefined`` does."""
    infinite = x.isinf().any(dim=1) if losses.has_head else torch.zeros_like(x[:, 0], dtype=torch.bool)
    if losses.is_plain:
        return infinite
    logits = _logits(x, losses)
    size = _largest_size(logits)[:, 0]
    if losses.smoothing:
        sizes = torch.where(logits.isfinite(), logits.abs(), 0.0)
        size = sizes.sum(dim=1, dtype=torch.float64) + x.shape[1] * size
    lost = size * (weights.LARGEST if losses.is_weighted else 1.0) > FLOAT32.max / 2
    if losses.z_loss:
        lost |= size > FLOAT32.max**0.5 / 2
    if losses.softcap:
        lost |= x.isinf().any(dim=1) | (_largest_size(x)[:, 0] * losses.logit_scale > FLOAT32.max)
    if losses.is_weighted:
        of_column = torch.from_numpy(losses.weights(x.shape[1])).to(x.device)
        lost |= ((x == -torch.inf) & (of_column == 0)).any(dim=1)
    return lost | infinite


def _of_logarithm(x: torch.Tensor, found: Exponentials, model: bounds.Model, scale: float = 1.0) -> torch.Tensor:
    """Returns the absolute errors of the logarithms of rows' sums, [rows, 1], as ``log_softmax.logarithm_errors`` does."""
    found_error: torch.Tensor = logarithm_error(
        found.total.log(), weighted_growth(x, found, model, scale), x.shape[1], model
    )
    return found_error


def _of_rows(
    fmt: Format,
    model: bounds.Model | None,
    exact: torch.Tensor,
    scale: torch.Tensor,
    error: torch.Tensor | None,
    columns: int,
    *,
    strict: bool,
) -> Limits:
    """Returns the limits of one answer for each row from its absolute error; ``scale`` is what the ULP is of, at least 1."""
    size = torch.where(scale.isfinite(), torch.maximum(scale, exact.abs()), 1.0)
    per_ulp = inverse_ulp(size.clamp_(min=1.0), fmt, strict=strict, of_scale=True)
    uncertainty = 8 * summing_error(columns) * 2.0**fmt.precision
    if model is None or error is None:
        return Limits(exact, per_ulp, None, None, uncertainty)
    if model.rounds_result:
        error = with_rounding(error, exact, fmt)
    # A row without a target has an exact answer.
    limits = (error * per_ulp).clamp_(min=torch.finfo(torch.float64).tiny)
    return Limits(exact, per_ulp, limits, None, uncertainty)
