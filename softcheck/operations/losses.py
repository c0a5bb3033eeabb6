"""The losses of a cross-entropy with all of its options: exact answers, bound, unit, and the terms of the gradient.

With x' the logits, scaled and capped where there is a scale or a soft cap, lse their log-sum-exp, t the target, w the class weights, s the label smoothing and n
the columns, the loss of a row is

    A lse - P + z lse^2,   A = (1 - s) w_t + s mean w,   P = (1 - s) w_t x'_t + s mean(w x')

and 0 where the target is to be ignored. The bound is derived in docs/bounds.md#losses.

A mean or a sum is one answer for a matrix, which is made of each row of the case's matrix, so that rows stay independent: a row of n columns is
given to the function as a matrix of its own, R rows of n / R columns. R is 1 for a prime n, where the answer is one row's loss alone.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracles import loss
from oracles.arrays import Array, largest, module_of, quiet
from oracles.formats import FLOAT32, FLOAT64, Format, Values
from oracles.reference import FullyMasked, Reference, stated
from softcheck.numbers.expression import Number, either, gathered, total
from softcheck.numbers.model import EXACT, Model
from softcheck.operations import options, targets
from softcheck.operations.arithmetic import IN_FLOAT64
from softcheck.operations.bounds import IN_BASE_E, Bounds, bounds_of, like, log_softmax
from softcheck.operations.gradient import RowTerms
from softcheck.operations.operation import Exact
from softcheck.operations.targets import Targets, batch_of
from softcheck.operations.ulp import Scaled

if TYPE_CHECKING:
    import torch

_TO_BASE_TWO = 3.0
"""Roundings of a logit's product with log2(e), and of its part in merges of parts' log-sum-exps."""
_OF_WEIGHT = 3.0
"""Roundings of a term's factor, as of 1 - s and its product with a weight."""
_OF_QUOTIENT = 2.0
"""Roundings of a mean's divisor and of its reciprocal."""


class Terms(NamedTuple):
    """The terms of the losses of rows; all but ``logits`` are [rows, 1]."""

    logits: Array
    """The logits, scaled and capped, [rows, columns]."""
    column: NDArray[np.int64]
    """The column of the target, 0 where there is none."""
    picked: Array
    """The logit at the target, 0 where there is none."""
    left_out: Array
    """True for rows without a target in the matrix."""
    factor: Array
    """A, by which the log-sum-exp is multiplied."""
    of_target: Array
    """(1 - s) w_t."""
    smooth_size: Array
    """s mean(w |x'|)."""
    first: Array | float = 1.0
    """Divisors of the first terms of each loss, as in a mean: the weights of all targets of the row's matrix."""
    last: Array | float = 1.0
    """Divisors of the square of the log-sum-exp: the number of these targets."""

    @property
    def of_mean(self) -> Array:
        """S mean w, by which the log-sum-exp is multiplied in the smoothed term."""
        return self.factor - self.of_target

    @property
    def size(self) -> Array:
        """The sizes of all terms but those of the log-sum-exp's logarithm, [rows, 1]."""
        return self.factor * abs(largest(self.logits)) + abs(self.of_target * self.picked) + self.smooth_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """A cross-entropy with options, as the functions of an operation; what begins with ``of_`` is of each row by itself."""

    targets: Targets
    logit_scale: float = 1.0
    """The factor of the logits."""
    smoothing: float = 0.0
    z_loss: float = 0.0
    softcap: float = 0.0
    is_weighted: bool = False
    has_head: bool = False
    """The logits are a product of the matrix with an identity, of which rows with infinities become NaN."""
    reduction: str = "none"
    """``none`` for a loss of each row, ``mean`` or ``sum`` for one answer of a matrix."""

    @property
    def is_plain(self) -> bool:
        """True if the loss is log-sum-exp less the logit at the target, of each row."""
        return self.is_plain_in_rows and self.reduction == "none"

    @property
    def is_plain_in_rows(self) -> bool:
        """True if the loss of a row is log-sum-exp less the logit at the target."""
        return self.logit_scale == 1 and not (self.smoothing or self.z_loss or self.softcap or self.is_weighted)

    def weights(self, columns: int) -> Values:
        """The class weights, [columns]; 1 where the loss has none."""
        return targets.weights_in_float64(columns) if self.is_weighted else np.ones(columns)

    def shape_of(self, columns: int) -> tuple[int, int]:
        """Rows and columns of the matrix that is made of a row of so many columns."""
        return (1, columns) if self.reduction == "none" else batch_of(columns)

    def rows(self, values: Array) -> Array:
        """The rows of all matrices, one behind the other."""
        parts, width = self.shape_of(values.shape[1])
        return values.reshape(len(values) * parts, width)

    def of_logits(self, rows: Array) -> Array:
        """The logits, scaled and capped, [rows, columns]; a scale rounds once."""
        with quiet(rows):
            scaled = rows if self.logit_scale == 1 else rows * self.logit_scale
        return options.capped_values(scaled, self.softcap) if self.softcap else scaled

    def terms(self, values: Array) -> Terms:
        """The terms of the losses of all rows."""
        rows = self.rows(values)
        xp, columns = module_of(rows), rows.shape[1]
        logits = self.of_logits(rows)
        chosen = self.targets.of_values(rows)[:, None]
        left_out = self.targets.left_out(chosen, columns)
        index = xp.where(left_out, 0, chosen)
        weights = self.weights(columns)
        of_column = like(rows, weights)
        picked = gathered(logits, index) if columns else np.zeros(index.shape)
        weight = of_column[index] if columns else np.ones(index.shape)
        of_target = (1.0 - self.smoothing) * weight
        smooth_size, mean = xp.zeros_like(of_target), 0.0
        if self.smoothing:
            with quiet(rows):
                smooth_size = self.smoothing * (of_column * abs(logits)).mean(axis=1, keepdims=True)
            mean = self.smoothing * float(weights.mean()) if columns else 0.0
        picked, factor = xp.where(left_out, 0.0, picked), of_target + mean
        found = Terms(logits, index, picked, left_out, factor, of_target, smooth_size)
        if self.reduction != "mean":
            return found
        counts = xp.where(left_out, 0.0, xp.ones_like(rows[:, :1]))
        sums = (self.summed(each, len(values)) for each in (counts * weight, counts))
        shape = (len(values), len(rows) // max(1, len(values)))
        first, last = (xp.broadcast_to(each, shape).reshape(-1, 1) for each in sums)
        return found._replace(first=xp.where(first > 0, first, np.inf), last=xp.where(last > 0, last, np.inf))

    @staticmethod
    def summed(each: Array, matrices: int) -> Array:
        """The sum of each matrix's rows, [matrices, 1]."""
        return each.reshape(matrices, len(each) // max(1, matrices)).sum(axis=1, keepdims=True)

    def formula(self, values: Array, fmt: Format, constants: Model) -> Number:
        """The answers, [rows, 1], as an arithmetic computes them."""
        terms, xp = self.terms(values), module_of(values)
        with quiet(values):
            losses = self.of_terms(terms, fmt, constants)
            value = self.of_convention(self.rows(values), losses.value, terms)
            error = xp.where(terms.left_out, 0.0, losses.error + xp.zeros_like(value))
            found = Number(value, constants, error)
            if self.reduction == "none":
                return found
            shape = (len(values), len(value) // max(1, len(values)))
            return replace(found, value=value.reshape(shape), off=error.reshape(shape)).sum(in_any_order=True)

    def of_terms(self, terms: Terms, fmt: Format, constants: Model) -> Number:
        """The losses of rows, each divided as in a mean.

        The form with the largest error computes the difference in base 2. Beside it torch adds up the log-softmax of all columns. A loss that
        is added to others may be rounded to the format before.
        """
        x, columns = self.with_errors(terms.logits, constants), terms.logits.shape[1]
        top, picked = x.max(), replace(x, value=terms.picked).rounded(_TO_BASE_TWO)
        lse = top.rounded(_TO_BASE_TWO) + (x - top).exp().sum().logarithm()

        def times(number: Number, weight: Array) -> Number:
            return number * Number(weight, constants).rounded(_OF_WEIGHT)

        def smoothed(numbers: Number) -> Number:
            weights = Number(like(terms.logits, self.weights(columns)), constants)
            return times((numbers * weights if self.is_weighted else numbers).sum(), -self.smoothing / columns)

        if self.is_plain_in_rows:
            found = lse - picked
        else:
            parts = [times(lse, terms.factor), times(picked, -terms.of_target)]
            found = total(*parts, smoothed(x)) if self.smoothing and columns else total(*parts)
        if self.smoothing and columns:
            y = log_softmax(x)
            found = either(found, total(times(y.at(terms.column), -terms.of_target), smoothed(y)))
        found = self.divided(found.rounded(IN_BASE_E), terms.first, fmt)
        if not self.z_loss:
            return found
        lse = lse.rounded(IN_BASE_E)
        return found + self.divided(times(lse * lse, self.z_loss), terms.last, fmt)

    def divided(self, losses: Number, divisor: Array | float, fmt: Format) -> Number:
        """The losses as terms of a sum or a mean, if they are to be that."""
        found = losses if self.reduction == "none" else losses.in_format(fmt)
        return found.rounded(_OF_QUOTIENT, 1.0 / divisor) if self.reduction == "mean" else found

    def on_device(self, x: "torch.Tensor", fmt: Format) -> Exact:
        """The answers where a tensor lies, and the error that float64's own capped logits leave of a log-sum-exp and a logit."""
        from softcheck.operations.torch_bounds import of_rows

        found = of_rows(self.formula(x.double(), fmt, EXACT).value, self.shape_of(x.shape[1])[1], fmt)
        of_cap = 4 * targets.LARGEST_WEIGHT * options.RELATIVE * self.softcap * 2.0**fmt.precision
        return found._replace(uncertainty=found.uncertainty + of_cap)

    def answer(self, values: Values, fmt: Format, masked: FullyMasked = "nan") -> Reference:
        """The answers in float64 with its errors, [rows, 1]; by Arb for float64. NaN where a mean has no divisor."""
        if fmt == FLOAT64:
            return self.prove(values, fmt, masked)
        found = self.formula(values, FLOAT64, IN_FLOAT64)
        return stated(found.value, found.off + np.zeros(found.value.shape))

    def prove(self, values: Values, fmt: Format, _masked: FullyMasked = "nan") -> Reference:
        """The same from the Arb oracle, where the answer is no convention."""
        if self.softcap:
            options.refuse_float64(fmt)
        rough, terms, balls = self.answer(values, FLOAT32), self.terms(values), self.balls(values)
        each = max(1, len(balls) // max(1, len(values)))
        proven = loss.reference([balls[first : first + each] for first in range(0, len(balls), each)])
        chosen = np.isfinite(rough.high)
        if self.reduction == "none":
            chosen &= ~terms.left_out
        return proven.known(~chosen, rough.high)

    def balls(self, values: Values) -> list[loss.Ball]:
        """Balls that contain the losses of rows; 0 for a row without a target or without a finite loss."""
        terms, rows = self.terms(values), self.rows(values)
        divisors = np.broadcast_to(np.hstack([terms.first, terms.last]), (len(rows), 2))
        is_finite = np.isfinite(replace(self, reduction="none").formula(rows, FLOAT64, EXACT).value) & ~terms.left_out
        of_all = {
            "smoothing": self.smoothing,
            "z_loss": self.z_loss,
            "scale": self.logit_scale,
            "softcap": self.softcap,
        }
        given = zip(rows, terms.column[:, 0].tolist(), divisors.tolist(), is_finite[:, 0], strict=True)
        weights = self.weights(rows.shape[1])
        return [
            loss.loss(row, target, weights, divisors=(first, last), **of_all) if counts else loss.ZERO
            for row, target, (first, last), counts in given
        ]

    def of_convention(self, rows: Array, losses: Array, terms: Terms) -> Array:
        """The losses, with the answers that follow a convention."""
        xp = module_of(rows)
        # The log-sum-exp is infinite, and the loss where nothing that is infinite is taken from it.
        due = np.nan
        if not self.smoothing:
            due = xp.where((terms.of_target > 0) & ~xp.isposinf(terms.picked), np.inf, np.nan)
        losses = xp.where(xp.isposinf(largest(rows)), due, losses)
        return xp.where(terms.left_out, self.targets.loss_without(self.targets.of_values(rows)[:, None]), losses)

    def scale(self, values: Array, _answers: Array, _fmt: Format) -> Array:
        """The sizes of the terms of each loss, summed up as the losses are, at least 1; 0 of a row without a target."""
        terms, xp = self.terms(values), module_of(values)
        size = self.of_sizes(terms)
        size = xp.where(terms.left_out | ~xp.isfinite(size), 0.0, size)
        return xp.clip(self.summed(size, len(values)), 1.0, None)

    def of_sizes(self, terms: Terms) -> Array:
        """The sizes of the terms of each loss, [rows, 1]."""
        with quiet(terms.logits):
            lse = self.lse(Number(terms.logits, EXACT)).value
            size = module_of(lse).clip(terms.size + terms.factor * abs(lse - largest(terms.logits)), 1.0, None)
            return size / terms.first + self.z_loss * lse * lse / terms.last

    def lse(self, logits: Number) -> Number:
        """The log-sum-exp in float64, exact enough for a bound, [rows, 1], with its error, but for the roundings at its maximum's size without a z-loss."""
        with quiet(logits.value):
            top = logits.max()
            logarithm = (logits - top).exp().sum().logarithm()
            value, off = top.value + logarithm.value, top.error + logarithm.error
            if self.z_loss:
                off = off + logits.model.roundoff * (4.0 * abs(top.value) + 2.0 * abs(value))
        return Number(value, logits.model, off)

    def bounds(self, values: Array, exact: Scaled, answers: Array, constants: Model) -> Bounds:
        """The bounds of each loss, or of a sum of losses."""
        return bounds_of(self.formula(values, exact.fmt, constants).error, answers, exact, constants)

    def with_errors(self, logits: Array, constants: Model) -> Number:
        """The loss's logits, with the errors that an arithmetic makes on its way to them."""
        found = Number.read(logits, constants)
        if self.softcap:
            found = options.with_cap(found, self.softcap)
        elif self.logit_scale != 1:
            found = found.scaled(1.0)
        return replace(found, relative=found.relative + constants.products) if self.has_head else found

    def undefined(self, values: Array, fmt: Format) -> Array:
        """Rows of which nothing is demanded, [rows].

        Such is a row of the matrix, or a mean has no divisor, or the terms of the losses overflow before they are divided.
        """
        terms, xp = self.terms(values), module_of(values)
        lost = self.of_undefined(self.rows(values), terms, fmt)[:, None]
        if self.reduction == "none":
            return lost[:, 0]
        if self.reduction == "mean":
            lost = lost | ~xp.isfinite(terms.first)
        # The sizes are infinite where terms overflow, and 0 where a convention decides.
        hidden = xp.isneginf(terms.logits).any(axis=1)[:, None] & bool(self.smoothing)
        settled = terms.left_out | ~xp.isfinite(largest(terms.logits)) | hidden | xp.isneginf(terms.picked)
        sizes = xp.where(settled, 0.0, self.of_sizes(terms._replace(first=1.0, last=1.0)))
        with quiet(values):
            too_large = self.summed(sizes, len(values))[:, 0] > largest_terms(fmt)
        return lost.reshape(len(values), self.shape_of(values.shape[1])[0]).any(axis=1) | too_large

    def of_undefined(self, rows: Array, terms: Terms, fmt: Format) -> Array:
        """Rows of which nothing is demanded by themselves.

        Terms of the loss, or the square of the log-sum-exp, may overflow the type computed in; a soft cap makes a number of an infinity, and a
        weight of 0 beside a masked logit has no product.
        """
        xp, columns = module_of(rows), rows.shape[1]
        size = xp.where(xp.isfinite(terms.logits), abs(terms.logits), 0.0)
        largest_size = largest(size)[:, 0]
        # The smoothed term may be a sum of differences from the maximum.
        with quiet(rows):
            size = size.sum(axis=1) + columns * largest_size if self.smoothing else largest_size
            lost = size * (targets.LARGEST_WEIGHT if self.is_weighted else 1.0) > largest_terms(fmt)
        if self.z_loss:
            lost |= size > 0.5 * math.sqrt(2 * largest_terms(fmt))
        if self.softcap:
            scaled = largest(xp.where(xp.isfinite(rows), abs(rows), 0.0))[:, 0] * self.logit_scale
            lost |= xp.isinf(rows).any(axis=1) | (scaled > FLOAT32.max)
        if self.is_weighted:
            lost |= (xp.isneginf(rows) & like(rows, self.weights(columns) == 0)).any(axis=1)
        lost &= not self.is_plain_in_rows
        if self.has_head:
            lost |= xp.isinf(rows).any(axis=1)
        return lost

    def gradient_terms(self, values: Values, constants: Model) -> RowTerms:
        """The terms of the gradients, with a row of logits for each row of a matrix."""
        terms, rows = self.terms(values), self.rows(values)
        columns, logits = rows.shape[1], self.with_errors(terms.logits, constants)
        found = self.lse(logits)
        lse = found.value
        less = (np.arange(columns) == terms.column) * terms.of_target
        if self.smoothing:
            less = less + self.smoothing * self.weights(columns) / columns
        of_square = 2.0 * self.z_loss / terms.last
        logit_error = np.zeros(lse.shape)
        if self.softcap or self.logit_scale != 1:
            # Beside the logit's own error, those of all others in the sum, whose mean distance from the largest is at most log(n).
            size = np.abs(terms.logits) + np.abs(largest(terms.logits)) + np.log(max(1, columns))
            logit_error = np.where(np.isfinite(size), logits.relative * size + logits.off, 0.0)
        return RowTerms(
            logits=terms.logits,
            less=less / terms.first,
            counts=~terms.left_out,
            factor=terms.factor / terms.first + of_square * lse,
            factor_size=terms.factor / terms.first + of_square * np.abs(lse),
            # torch adds up the gradients of all columns' terms, in any order.
            factor_error=of_square * found.error + columns * constants.addition * terms.of_mean / terms.first,
            slope=options.slope(rows * self.logit_scale, self.softcap) if self.softcap else np.ones((1, 1)),
            logit_error=logit_error,
            scale=self.logit_scale,
        )


def largest_terms(fmt: Format) -> float:
    """The largest sum of a loss's terms of which an answer is demanded: half of what float32 holds; for float64 the oracle overflows before."""
    return FLOAT64.max * 2.0**-40 if fmt == FLOAT64 else FLOAT32.max / 2
