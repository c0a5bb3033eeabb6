"""An operation of scaled logits, such as softmax(x / sqrt(d)). Its bound is derived in docs/bounds.md, section 21."""

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from oracles._double_word import DoubleWord, fast_two_sum, two_product, two_sum
from oracles.formats import FLOAT32, FLOAT64, Format, Values, widest
from oracles.reference import FullyMasked, Reference
from softcheck.errors import UsageError
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.bounds import Bounds, Model
from softcheck.operations.gradient import Gradient, GradientErrors
from softcheck.operations.operation import Limits, OnDevice, Operation, as_they_are
from softcheck.operations.ulp import Flags, Scaled

if TYPE_CHECKING:
    import torch

_ROUNDINGS = 4
"""Of a scaled logit: the scale, its product with log2(e), that constant, and the product with the logit."""

_UNIT = 2.0**-53

_SECOND_ORDER = 2.0**-80
"""Covers squares of the low words of scaled distances, each at most 2^-53 of 1200, and the roundings of their correction."""

_FARTHEST = 1200.0
"""Distance beyond which every oracle gives 0, or the distance itself."""


def check(scale: float) -> None:
    """Raises UsageError for a scale that is not above 0 or not finite."""
    if not 0.0 < scale < np.inf:
        raise UsageError(f"the scale is {scale:g}; expected a number above 0, such as 0.125, or 1 / temperature")


def scaled(plain: Operation, scale: float) -> Operation:
    """Returns the operation of ``scale * x`` for an operation of x that depends on differences of logits alone.

    Rows with a product that float32 can't hold, or float64 for its own inputs, have no promised answer. Raises UsageError as ``check`` does.
    """
    check(scale)
    if scale == 1.0:
        return plain

    def answer(values: Values, fmt: Format, fully_masked: FullyMasked) -> Reference:
        if fmt == FLOAT64:
            below = _exact_distances(values, scale)
            return _corrected(plain, plain.answer(below.high, fmt, fully_masked), below)
        rounded = _distances(values, scale)
        return _widened(plain.answer(rounded, fmt, fully_masked), rounded)

    def prove(values: Values, fmt: Format, fully_masked: FullyMasked) -> Reference:
        if fmt == FLOAT64:
            below = _exact_distances(values, scale)
            return _corrected(plain, plain.prove(below.high, fmt, fully_masked), below)
        rounded = _distances(values, scale)
        return _widened(plain.prove(rounded, fmt, fully_masked), rounded)

    def decimal(row: Values, column: int, fmt: Format, fully_masked: FullyMasked) -> str:
        if fmt == FLOAT64:
            return f"{prove(row[None], fmt, fully_masked).values[0, column]:.17g}"
        return plain.decimal(_distances(row[None], scale)[0], column, fmt, fully_masked)

    def bounds(values: Values, exact: Scaled, answers: Values, model: Model) -> Bounds:
        return plain.bounds(values * scale, exact, answers, with_scale(model))

    return replace(
        plain,
        parameters={**plain.parameters, "scale": scale},
        answer=answer,
        prove=prove,
        decimal=decimal,
        bounds=bounds,
        undefined=(lambda values, fmt: _overflows(values, scale, fmt)) if scale > 1.0 else None,
        yardstick=lambda x: plain.yardstick(x * scale),
        gradient=None if plain.gradient is None else _gradient(plain.gradient, scale),
        on_device=None if plain.on_device is None else _on_device(plain.on_device, scale),
    )


def with_scale(model: Model) -> Model:
    """Returns an arithmetic's constants for logits that it has scaled."""
    return replace(model, scaling=max(model.scaling, _ROUNDINGS * model.roundoff * (1 + model.exponent)))


def _on_device(plain: OnDevice, scale: float) -> OnDevice:
    def found(
        x: "torch.Tensor", fmt: Format, model: Model | None, *, strict: bool = False, scale: float = scale
    ) -> Limits:
        rounded = None if model is None else with_scale(model)
        limits = plain(x, fmt, rounded, strict=strict, scale=scale)
        if scale <= 1.0:
            return limits
        sizes = x.double().abs()
        return limits._replace(undefined=sizes.where(sizes.isfinite(), 0.0).amax(dim=1) * scale > FLOAT32.max)

    return found


def _overflows(values: Values, scale: float, fmt: Format) -> Flags:
    """Rows with a product that the type computed in can't hold, [rows]."""
    sizes = np.where(np.isfinite(values), np.abs(values), 0.0).max(axis=1, initial=0.0)
    found: Flags = sizes > widest(fmt).max / scale
    return found


def _distances(values: Values, scale: float) -> Values:
    """Scaled distances to the row's maximum, at most 0: exact but for two roundings, however large the logits are."""
    with np.errstate(invalid="ignore", over="ignore"):
        top = values.max(axis=1, keepdims=True, initial=-np.inf)
        return np.where(np.isfinite(top), (values - top) * scale, values)


def _widened(answer: Reference, below: Values) -> Reference:
    """The answer with the error that the roundings of the distances make."""
    far = np.where(np.isfinite(below), -below, 0.0).clip(max=_FARTHEST)
    wider = 3 * _UNIT * (far + far.max(axis=1, keepdims=True, initial=0.0))
    return replace(answer, relative_error=answer.relative_error + wider)


def _exact_distances(values: Values, scale: float) -> DoubleWord:
    """Scaled distances to the row's maximum as double words, off by at most 2^-103 of themselves."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        top = values.max(axis=1, keepdims=True, initial=-np.inf)
        # A difference of the largest numbers overflows, and its product with the scale need not.
        finite = np.where(np.isfinite(values), np.abs(values), 0.0)
        part = np.where(finite.max(axis=1, keepdims=True, initial=0.0) > 2.0**1000, 0.25, 1.0)
        distance = two_sum(values * part, -top * part)
        # No part of a product of mantissas underflows.
        mantissa, exponent = np.frexp(distance.high)
        factor, more = np.frexp(scale)
        product, exponent = (
            two_product(mantissa, np.full(mantissa.shape, factor)),
            exponent + more + np.where(part < 1, 2, 0),
        )
        low = np.ldexp(product.low, exponent) + distance.low * (scale / part)
        found = fast_two_sum(np.ldexp(product.high, exponent), low)
        is_exact = np.isfinite(top) & np.isfinite(values) & np.isfinite(found.low)
    rounded = _distances(values, scale)
    return DoubleWord(np.where(is_exact, found.high, rounded), np.where(is_exact, found.low, 0.0))


def _corrected(plain: Operation, answer: Reference, below: DoubleWord) -> Reference:
    """The answer for double words, from that for their high words: the first-order terms of the low words are added."""
    is_logarithm = plain.probabilities is not as_they_are
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        counts = below.high > -_FARTHEST
        low = np.where(counts, below.low, 0.0)
        values = answer.values
        powers = np.exp(values) if is_logarithm else values
        mean = np.where(counts & np.isfinite(powers), powers * low, 0.0).sum(axis=1, keepdims=True)
        more = below.low - mean if is_logarithm else answer.high * (low - mean)
        sums = fast_two_sum(answer.high, answer.low + more)
    is_finite = np.isfinite(sums.high) & np.isfinite(sums.low)
    return replace(
        answer,
        high=np.where(is_finite, sums.high, answer.high),
        low=np.where(is_finite, sums.low, answer.low),
        relative_error=answer.relative_error + _SECOND_ORDER,
    )


def _gradient(plain: Gradient, scale: float) -> Gradient:
    """The chain rule: the gradient of f(s x) for g is that of f at s x for s g."""

    def errors(
        found: Values, grads: Values, logits: Values, answer: Reference, fmt: Format, arithmetic: Arithmetic
    ) -> GradientErrors:
        rounding = _with_scaled_logits(arithmetic)
        return plain.errors(found, grads * scale, logits * scale, answer, fmt, rounding)

    def size(p: "torch.Tensor", g: "torch.Tensor") -> "torch.Tensor":
        return plain.size(p, g * scale)

    def second(p: "torch.Tensor", g: "torch.Tensor", w: "torch.Tensor") -> "torch.Tensor":
        assert plain.second is not None
        return plain.second(p, g * scale, w * scale)

    return Gradient(errors=errors, scale=f"{plain.scale}, g scaled", size=size, second=second)


def _with_scaled_logits(arithmetic: Arithmetic) -> Arithmetic:
    return msgspec.structs.replace(arithmetic, scaled_logits=True)
