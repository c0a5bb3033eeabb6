"""The loss of one row in a cross-entropy with all of its options: exact answers, bound, unit, and the terms of its gradient.

With x' the logits, scaled and capped where there is a scale or a soft cap, lse their log-sum-exp, t the target, w the class weights, s the label smoothing and n
the columns, the loss is

    A lse - P + z lse^2,   A = (1 - s) w_t + s mean w,   P = (1 - s) w_t x'_t + s mean(w x')

and 0 where the target is to be ignored. The bound is derived in docs/bounds.md, section 28.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracles import loss
from oracles.float64 import summation_depth
from oracles.formats import FLOAT32, FLOAT64, Format, Values
from oracles.reference import Reference, with_error
from softcheck.operations import softcap
from softcheck.operations import weights as class_weights
from softcheck.operations.bounds import LARGEST_EXPONENT, Model, depth
from softcheck.operations.expression import gathered, largest, like, module_of, quiet
from softcheck.operations.log_softmax import LOG_SOFTMAX
from softcheck.operations.logsumexp import added, error_of_logarithm, of_logarithms
from softcheck.operations.operation import Exact
from softcheck.operations.row_gradient import RowTerms
from softcheck.operations.scaled import with_scale
from softcheck.operations.targets import Targets
from softcheck.operations.ulp import Flags

if TYPE_CHECKING:
    import torch

_UNIT = 2.0**-53

Divisors = tuple[Any, Any]
"""Divisors of the first terms of each loss and of the square of the log-sum-exp, as in a mean; both [rows, 1]."""

_ONES: Divisors = (1.0, 1.0)


class Terms(NamedTuple):
    """The terms of the losses of rows; all but ``logits`` are [rows, 1]."""

    logits: Values
    """The logits, scaled and capped, [rows, columns]."""
    column: NDArray[np.int64]
    """The column of the target, 0 where there is none."""
    picked: Values
    """The logit at the target, 0 where there is none."""
    left_out: Flags
    """True for rows without a target in the matrix."""
    factor: Values
    """A, by which the log-sum-exp is multiplied."""
    of_target: Values
    """(1 - s) w_t."""
    smooth: Values
    """s mean(w x')."""
    smooth_size: Values
    """s mean(w |x'|)."""

    @property
    def of_mean(self) -> Values:
        """S mean w, by which the log-sum-exp is multiplied in the smoothed term."""
        return self.factor - self.of_target

    @property
    def size(self) -> Values:
        """The sizes of all terms but those of the log-sum-exp's logarithm, [rows, 1]."""
        found: Values = self.factor * abs(largest(self.logits)) + abs(self.of_target * self.picked) + self.smooth_size
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLoss:
    """The options of a cross-entropy that hold for each row by itself."""

    targets: Targets
    logit_scale: float = 1.0
    """The factor of the logits."""
    smoothing: float = 0.0
    z_loss: float = 0.0
    softcap: float = 0.0
    is_weighted: bool = False
    has_head: bool = False
    """The logits are a product of the matrix with an identity, of which rows with infinities become NaN."""

    @property
    def is_plain(self) -> bool:
        """True if the loss is log-sum-exp less the logit at the target."""
        return self.logit_scale == 1 and not (self.smoothing or self.z_loss or self.softcap or self.is_weighted)

    def weights(self, columns: int) -> Values:
        """The class weights, [columns]; 1 where the loss has none."""
        return class_weights.of_columns_in_float64(columns) if self.is_weighted else np.ones(columns)

    def logits(self, values: Values) -> Values:
        """The logits, scaled and capped, [rows, columns]; a scale rounds once."""
        with quiet(values):
            scaled = values if self.logit_scale == 1 else values * self.logit_scale
        return softcap.capped(scaled, self.softcap) if self.softcap else scaled

    def terms(self, values: Values) -> Terms:
        """The terms of the losses of rows [rows, columns]."""
        xp, columns = module_of(values), values.shape[1]
        logits = self.logits(values)
        chosen = self.targets.of_values(values)[:, None]
        left_out = self.targets.left_out(chosen, columns)
        index = xp.where(left_out, 0, chosen)
        weights = self.weights(columns)
        of_column = like(values, weights)
        picked = gathered(logits, index) if columns else np.zeros(index.shape)
        of_target = (1.0 - self.smoothing) * (of_column[index] if columns else np.ones(index.shape))
        smooth, smooth_size, mean = xp.zeros_like(of_target), xp.zeros_like(of_target), 0.0
        if self.smoothing:
            with quiet(values):
                smooth = self.smoothing * (of_column * logits).mean(axis=1, keepdims=True)
                smooth_size = self.smoothing * (of_column * abs(logits)).mean(axis=1, keepdims=True)
            mean = self.smoothing * float(weights.mean()) if columns else 0.0
        return Terms(
            logits, index, xp.where(left_out, 0.0, picked), left_out, of_target + mean, of_target, smooth, smooth_size
        )

    def in_float64(self, values: Values, divisors: Divisors | None = None) -> Values:
        """The losses of rows in plain float64, [rows, 1], as exact as a bound or a judge on a device needs."""
        terms, (first, last) = self.terms(values), divisors or _ONES
        with quiet(values):
            top, lse = largest(terms.logits), self.lse(terms)
            if self.is_plain:
                losses = (top - terms.picked) + (lse - top)
            else:
                losses = terms.factor * lse - terms.of_target * terms.picked - terms.smooth
            losses = losses / first + self.z_loss * lse * lse / last
        return self._by_convention(values, losses, terms)

    def on_device(self, x: "torch.Tensor", fmt: Format, divisors: Divisors | None = None) -> Exact:
        """The losses where a tensor lies, and the error that float64's own capped logits leave of a log-sum-exp and a logit."""
        from softcheck.operations.torch_bounds import of_rows

        found = of_rows(self.in_float64(x.double(), divisors), x.shape[1], fmt)  # type: ignore[arg-type]
        of_cap = 4 * class_weights.LARGEST * softcap.RELATIVE * self.softcap * 2.0**fmt.precision
        return found._replace(uncertainty=found.uncertainty + of_cap)

    def answer(self, values: Values, fmt: Format, divisors: Divisors | None = None) -> Reference:
        """The losses of rows, [rows, 1], from the everyday oracle, each divided as in a mean if there are divisors."""
        if self.is_plain and divisors is None:
            return self._plain(values, LOG_SOFTMAX.answer(values, fmt, "nan"))
        terms, (first, last) = self.terms(values), divisors or _ONES
        logarithms = LOG_SOFTMAX.answer(terms.logits, FLOAT32, "nan")
        found = of_logarithms(terms.logits, logarithms, largest(terms.logits))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            lse = found.high + found.low
            square = self.z_loss * lse * lse if self.z_loss else np.zeros(lse.shape)
            high = (terms.factor * lse - terms.of_target * terms.picked - terms.smooth) / first + square / last
            of_lse = found.relative_error * np.abs(lse)
            if self.softcap or self.logit_scale != 1:
                # Each logit's own error counts as much as its probability.
                shares = np.where(np.isfinite(terms.logits), np.exp(logarithms.values) * np.abs(terms.logits), 0.0)
                of_lse = of_lse + softcap.RELATIVE * shares.sum(axis=1, keepdims=True)
            size = (terms.size + terms.factor * np.abs(lse)) / first + square / last
            off = _UNIT * (summation_depth(values.shape[1]) + 32) * size
            off += (terms.factor / first + 2 * self.z_loss * (np.abs(lse) + of_lse) / last) * of_lse
            high, low, relative = with_error(high, np.zeros(high.shape), off)
        return self._settled(values, replace(found, high=high, low=low, relative_error=relative), terms)

    def prove(self, values: Values, fmt: Format) -> Reference:
        """The losses of rows from the Arb oracle."""
        if self.is_plain:
            return self._plain(values, LOG_SOFTMAX.prove(values, fmt, "nan"))
        rough, balls = self.answer(values, fmt), self.balls(values)
        return with_proven(rough, loss.reference([[ball] for ball in balls]), self.terms(values).left_out[:, 0])

    def balls(self, values: Values, divisors: Divisors | None = None) -> list[loss.Ball]:
        """Balls that contain the losses of rows; 0 for a row without a target or without a finite loss."""
        terms, of_column = self.terms(values), self.weights(values.shape[1])
        over = np.broadcast_to(np.hstack(divisors or _ONES), (len(values), 2))
        is_finite = np.isfinite(self.answer(values, FLOAT32).high[:, 0]) & ~terms.left_out[:, 0]
        return [
            loss.loss(
                row,
                int(target),
                of_column,
                smoothing=self.smoothing,
                z_loss=self.z_loss,
                scale=self.logit_scale,
                softcap=self.softcap,
                divisors=(float(first), float(last)),
            )
            if counts
            else loss.ZERO
            for row, target, (first, last), counts in zip(values, terms.column[:, 0], over, is_finite, strict=True)
        ]

    def _plain(self, values: Values, logarithms: Reference) -> Reference:
        """From the exact log-softmax, whose value at the maximum is -L; m - x_t is exact as two float64."""
        terms = self.terms(values)
        distance, rest = added(largest(values), -terms.picked, np.zeros_like(terms.picked))
        found = of_logarithms(values, logarithms, distance)
        return self._settled(values, replace(found, low=np.where(np.isfinite(rest), found.low + rest, 0.0)), terms)

    def _settled(self, values: Values, found: Reference, terms: Terms) -> Reference:
        """With the answers that follow a convention: of rows with +inf, of ignored rows, and of targets out of range."""
        high = self._by_convention(values, found.high, terms)
        low = np.where(np.isfinite(high) & ~terms.left_out, found.low, 0.0)
        return replace(found, high=high, low=low, relative_error=np.where(terms.left_out, 0.0, found.relative_error))

    def _by_convention(self, values: Values, losses: Values, terms: Terms) -> Values:
        """The losses, with the answers that follow a convention."""
        xp = module_of(values)
        # The log-sum-exp is infinite, and the loss where nothing that is infinite is taken from it.
        due = np.nan
        if not self.smoothing:
            due = xp.where((terms.of_target > 0) & ~xp.isposinf(terms.picked), np.inf, np.nan)
        losses = xp.where(xp.isposinf(largest(values)), due, losses)
        found: Values = xp.where(
            terms.left_out, self.targets.loss_without(self.targets.of_values(values)[:, None]), losses
        )
        return found

    def scale(self, values: Values, divisors: Divisors | None = None) -> Values:
        """The sizes of the terms of each loss, [rows, 1], at least 1; 0 for a row without a target."""
        terms, xp = self.terms(values), module_of(values)
        size = self._sizes(terms, divisors)
        found: Values = xp.where(terms.left_out | ~xp.isfinite(size), 0.0, size)
        return found

    def _sizes(self, terms: Terms, divisors: Divisors | None = None) -> Values:
        first, last = divisors or _ONES
        with quiet(terms.logits):
            lse = self.lse(terms)
            size = terms.size + terms.factor * abs(lse - largest(terms.logits))
            found: Values = module_of(size).clip(size, 1.0, None) / first + self.z_loss * lse * lse / last
        return found

    def lse(self, terms: Terms) -> Values:
        """The log-sum-exp in float64, which is exact enough for a bound, [rows, 1]."""
        top, xp = largest(terms.logits), module_of(terms.logits)
        with quiet(terms.logits):
            found: Values = top + xp.log(xp.exp(terms.logits - top).sum(axis=1, keepdims=True))
        return found

    def errors(self, values: Values, answers: Values, constants: Model, divisors: Divisors | None = None) -> Values:
        """The largest error of each loss before it is rounded to its format, [rows, 1]; 0 where there is no target."""
        terms, (first, last) = self.terms(values), divisors or _ONES
        constants = self.with_logits(constants)
        with quiet(values):
            lse = self.lse(terms)
            of_lse = self.lse_error(terms, lse, constants)
            # Products of the terms with weights, 1 - s and s, in whatever order.
            sizes = terms.size if self.is_plain else 3.0 * (terms.size + abs(terms.factor * lse))
            sizes = sizes / first + self.z_loss * lse * lse / last
            # Without a z-loss its factor is left out: what it multiplies may overflow.
            slope = terms.factor / first + (2.0 * self.z_loss * (abs(lse) + of_lse) / last if self.z_loss else 0.0)
            error = slope * of_lse
            if self.smoothing:
                # Kernels add up the logits, or torch's terms lse - x_j, each as wrong as the log-sum-exp.
                summed = module_of(lse).maximum(terms.smooth_size, terms.of_mean * (lse + of_lse) - terms.smooth)
                error = error + self.summing(values.shape[1], constants) * summed / first
            error = error + constants.roundoff * (4.0 * sizes + 2.0 * abs(answers)) + constants.underflow
            if constants.rounds_logits:
                picked = abs(terms.of_target * terms.picked) + terms.smooth_size
                error = error + (constants.per_logit * picked + constants.logit_error * terms.factor) / first
        found: Values = module_of(error).where(terms.left_out, 0.0, error)
        return found

    def with_logits(self, constants: Model) -> Model:
        """An arithmetic's constants for the loss's logits."""
        if self.has_head and constants.products:
            constants = replace(constants, scaling=constants.scaling + constants.products * (1 + constants.exponent))
        if self.softcap:
            return softcap.with_cap(constants, self.softcap)
        return constants if self.logit_scale == 1 else with_scale(constants)

    @staticmethod
    def summing(columns: int, constants: Model) -> float:
        """The relative error of a sum over a row's columns."""
        return math.expm1(min(depth(columns, constants.lanes) * constants.addition, LARGEST_EXPONENT))

    def lse_error(self, terms: Terms, lse: Values, constants: Model) -> Values:
        """The largest error of the log-sum-exp, [rows, 1], but for the roundings at its maximum's size without a z-loss."""
        found = error_of_logarithm(terms.logits, constants)
        if constants.rounds_logits:
            found = found + constants.per_logit * abs(largest(terms.logits)) + constants.logit_error
        if self.z_loss:
            found = found + constants.roundoff * (4.0 * abs(largest(terms.logits)) + 2.0 * abs(lse))
        return found

    def finite_sizes(self, values: Values) -> Values:
        """The sizes of the terms of each loss, [rows]; infinite where they overflow.

        They are 0 where there is no target, where a logit is NaN or +inf, and where a hidden logit makes the loss infinite.
        """
        terms, xp = self.terms(values), module_of(values)
        hidden = xp.isneginf(terms.logits).any(axis=1)[:, None] & bool(self.smoothing)
        settled = terms.left_out | ~xp.isfinite(largest(terms.logits)) | hidden | xp.isneginf(terms.picked)
        found: Values = xp.where(settled, 0.0, self._sizes(terms))[:, 0]
        return found

    def undefined(self, values: Values, fmt: Format) -> Flags:
        """Rows of which nothing is demanded, [rows].

        Terms of the loss, or the square of the log-sum-exp, may overflow the type computed in; a soft cap makes a number of an infinity, and a
        weight of 0 beside a masked logit has no product.
        """
        xp, logits = module_of(values), self.logits(values)
        size = xp.where(xp.isfinite(logits), abs(logits), 0.0)
        largest_size = largest(size)[:, 0]
        # The smoothed term may be a sum of differences from the maximum.
        with quiet(values):
            size = size.sum(axis=1) + values.shape[1] * largest_size if self.smoothing else largest_size
            lost = size * (class_weights.LARGEST if self.is_weighted else 1.0) > largest_terms(fmt)
        if self.z_loss:
            lost |= size > 0.5 * math.sqrt(2 * largest_terms(fmt))
        if self.softcap:
            scaled = largest(xp.where(xp.isfinite(values), abs(values), 0.0))[:, 0] * self.logit_scale
            lost |= xp.isinf(values).any(axis=1) | (scaled > FLOAT32.max)
        if self.is_weighted:
            lost |= (xp.isneginf(values) & like(values, self.weights(values.shape[1]) == 0)).any(axis=1)
        lost &= not self.is_plain
        if self.has_head:
            lost |= xp.isinf(values).any(axis=1)
        found: Flags = lost
        return found

    def gradient(self, values: Values, constants: Model, divisors: Divisors | None = None) -> RowTerms:
        """The terms of the losses' gradients."""
        terms, (first, last) = self.terms(values), divisors or _ONES
        constants = self.with_logits(constants)
        lse, columns = self.lse(terms), values.shape[1]
        less = (np.arange(columns) == terms.column) * terms.of_target
        if self.smoothing:
            less = less + self.smoothing * self.weights(columns) / columns
        of_square = 2.0 * self.z_loss / last
        logit_error = np.zeros(lse.shape)
        if self.softcap or self.logit_scale != 1:
            # Beside the logit's own error, those of all others in the sum, whose mean distance from the largest is at most log(n).
            size = np.abs(terms.logits) + np.abs(largest(terms.logits)) + np.log(max(1, columns))
            logit_error = np.where(np.isfinite(size), constants.per_logit * size + constants.logit_error, 0.0)
        return RowTerms(
            logits=terms.logits,
            less=less / first,
            counts=~terms.left_out,
            factor=terms.factor / first + of_square * lse,
            factor_size=terms.factor / first + of_square * np.abs(lse),
            # torch adds up the gradients of all columns' terms, in any order.
            factor_error=of_square * self.lse_error(terms, lse, constants)
            + columns * constants.addition * terms.of_mean / first,
            slope=softcap.slope(values * self.logit_scale, self.softcap) if self.softcap else np.ones((1, 1)),
            logit_error=logit_error,
            scale=self.logit_scale,
        )


def largest_terms(fmt: Format) -> float:
    """The largest sum of a loss's terms of which an answer is demanded: half of what float32 holds; for float64 the oracle overflows before."""
    return FLOAT64.max * 2.0**-40 if fmt == FLOAT64 else FLOAT32.max / 2


def with_proven(rough: Reference, proven: Reference, settled: Flags) -> Reference:
    """Returns proven answers where the rough ones are finite and not ``settled``, [rows], by convention."""
    chosen = np.isfinite(rough.high) & ~settled[:, None]
    return replace(
        rough,
        high=np.where(chosen, proven.high, rough.high),
        low=np.where(chosen, proven.low, rough.low),
        relative_error=np.where(chosen, proven.relative_error, rough.relative_error),
        absolute_error=proven.absolute_error,
    )
