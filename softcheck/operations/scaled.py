"""An operation of scaled logits, such as softmax(x / sqrt(d)). Its bound is derived in docs/bounds.md, section 21."""

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from oracles.formats import FLOAT32, FLOAT64, Format, Values
from oracles.reference import FullyMasked, Reference
from softcheck.errors import UsageError
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.bounds import Bounds, Model
from softcheck.operations.gradient import Gradient, GradientErrors
from softcheck.operations.operation import Limits, OnDevice, Operation
from softcheck.operations.ulp import Flags, Scaled

if TYPE_CHECKING:
    import torch

_ROUNDINGS = 4
"""Of a scaled logit: the scale, its product with log2(e), that constant, and the product with the logit."""

_UNIT = 2.0**-53

_FARTHEST = 1200.0
"""Distance beyond which every oracle gives 0, or the distance itself."""


def scaled(plain: Operation, scale: float) -> Operation:
    """Returns the operation of ``scale * x`` for an operation of x that depends on differences of logits alone.

    Rows with a product that float32 can't hold have no promised answer. Raises UsageError for a scale that is not above 0 or not finite.
    """
    if not 0.0 < scale < np.inf:
        raise UsageError(f"the scale is {scale:g}; expected a number above 0, such as 0.125, or 1 / temperature")
    if scale == 1.0:
        return plain

    def distances(values: Values) -> Values:
        """Scaled distances to the row's maximum, at most 0: exact but for two roundings, however large the logits are."""
        with np.errstate(invalid="ignore", over="ignore"):
            top = values.max(axis=1, keepdims=True, initial=-np.inf)
            return np.where(np.isfinite(top), (values - top) * scale, values)

    def widened(answer: Reference, values: Values) -> Reference:
        """With the error that the roundings of the distances make."""
        far = np.where(np.isfinite(values), -values, 0.0).clip(max=_FARTHEST)
        wider = 3 * _UNIT * (far + far.max(axis=1, keepdims=True, initial=0.0))
        return replace(answer, relative_error=answer.relative_error + wider)

    def answer(values: Values, fmt: Format, fully_masked: FullyMasked) -> Reference:
        if fmt == FLOAT64:
            raise UsageError("a scale is judged in formats of up to 32 bits; leave float64 out of the dtypes")
        below = distances(values)
        return widened(plain.answer(below, fmt, fully_masked), below)

    def prove(values: Values, fmt: Format, fully_masked: FullyMasked) -> Reference:
        below = distances(values)
        return widened(plain.prove(below, fmt, fully_masked), below)

    def overflows(values: Values) -> Flags:
        sizes = np.where(np.isfinite(values), np.abs(values), 0.0).max(axis=1, initial=0.0)
        found: Flags = sizes * scale > FLOAT32.max
        return found

    def bounds(values: Values, exact: Scaled, answers: Values, model: Model) -> Bounds:
        return plain.bounds(values * scale, exact, answers, _rounding(model))

    return replace(
        plain,
        parameters={**plain.parameters, "scale": scale},
        answer=answer,
        prove=prove,
        decimal=lambda row, column, fmt, masked: plain.decimal(distances(row[None])[0], column, fmt, masked),
        bounds=bounds,
        undefined=overflows if scale > 1.0 else None,
        yardstick=lambda x: plain.yardstick(x * scale),
        gradient=None if plain.gradient is None else _gradient(plain.gradient, scale),
        on_device=None if plain.on_device is None else _on_device(plain.on_device, scale),
        accelerator=None,
    )


def _rounding(model: Model) -> Model:
    """The arithmetic, with the roundings of scaled logits."""
    return replace(model, scaling=max(model.scaling, _ROUNDINGS * model.roundoff * (1 + model.exponent)))


def _on_device(plain: OnDevice, scale: float) -> OnDevice:
    def found(
        x: "torch.Tensor", fmt: Format, model: Model | None, *, strict: bool = False, scale: float = scale
    ) -> Limits:
        rounded = None if model is None else _rounding(model)
        limits = plain(x, fmt, rounded, strict=strict, scale=scale)
        if scale <= 1.0:
            return limits
        sizes = x.double().abs()
        return limits._replace(undefined=sizes.where(sizes.isfinite(), 0.0).amax(dim=1) * scale > FLOAT32.max)

    return found


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
