"""An operation of capped logits, such as softmax(c tanh(x / c)). Its bound is derived in docs/bounds.md, section 28."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from oracles.formats import FLOAT32, FLOAT64, Format, Values
from oracles.reference import FullyMasked, Reference
from softcheck.errors import UsageError
from softcheck.operations import softcap as caps
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.bounds import Bounds, Model
from softcheck.operations.gradient import ROUNDINGS, Gradient, GradientErrors, computed_in
from softcheck.operations.operation import Limits, Operation
from softcheck.operations.ulp import Flags, Scaled

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class _Capped:
    """An operation of capped logits, as the functions of an operation."""

    inner: Operation
    softcap: float
    factor: float

    @property
    def cap(self) -> float:
        """The cap of x itself: s (c / s) tanh(x / (c / s)) is c tanh(s x / c)."""
        return self.softcap / self.factor

    def logits(self, values: Values) -> Values:
        return caps.capped(values, self.cap)

    def widened(self, answer: Reference) -> Reference:
        return replace(answer, relative_error=answer.relative_error + 4 * caps.RELATIVE * self.softcap)

    def answer(self, values: Values, fmt: Format, fully_masked: FullyMasked) -> Reference:
        if fmt == FLOAT64:
            raise UsageError("a soft cap is judged in formats of up to 32 bits; leave float64 out of the dtypes")
        return self.widened(self.inner.answer(self.logits(values), fmt, fully_masked))

    def prove(self, values: Values, fmt: Format, fully_masked: FullyMasked) -> Reference:
        return self.widened(self.inner.prove(self.logits(values), fmt, fully_masked))

    def decimal(self, row: Values, column: int, fmt: Format, fully_masked: FullyMasked) -> str:
        return self.inner.decimal(self.logits(row[None])[0], column, fmt, fully_masked)

    def bounds(self, values: Values, exact: Scaled, answers: Values, model: Model) -> Bounds:
        return self.inner.bounds(self.logits(values), exact, answers, caps.with_cap(model, self.softcap))

    def scale(self, values: Values, answers: Values, fmt: Format) -> Values:
        assert self.inner.scale is not None
        return self.inner.scale(self.logits(values), answers, fmt)

    def undefined(self, values: Values, _fmt: Format) -> Flags:
        largest = np.where(np.isneginf(values), 0.0, np.abs(values)).max(axis=1, initial=0.0)
        found: Flags = largest * max(self.factor, 1.0) > FLOAT32.max
        return found

    def on_device(
        self, x: "torch.Tensor", fmt: Format, model: Model | None, *, strict: bool = False, scale: float = 1.0
    ) -> Limits:
        assert self.inner.on_device is not None
        assert scale == 1.0, "a capped logit has a scale of its own"
        of_capped = None if model is None else caps.with_cap(model, self.softcap)
        found = self.inner.on_device(caps.capped_tensor(x, self.cap), fmt, of_capped, strict=strict)
        largest = x.abs().masked_fill_(x == -math.inf, 0.0).amax(dim=1).double() * max(self.factor, 1.0)
        own = 4 * caps.RELATIVE * self.softcap * 2.0**fmt.precision
        return found._replace(undefined=largest > FLOAT32.max, uncertainty=found.uncertainty + own)

    def yardstick(self, x: "torch.Tensor") -> "torch.Tensor":
        import torch

        hidden = x == float("-inf")
        shown = self.cap * torch.tanh(x.masked_fill(hidden, 0.0) / self.cap)
        return self.inner.yardstick(shown.masked_fill(hidden, float("-inf")))


def capped(inner: Operation, softcap: float, scale: float) -> Operation:
    """Returns the operation of ``softcap * tanh(scale * x / softcap)`` for ``inner``, which is the operation of ``scale * x``.

    Logits of -inf stay what they are: a kernel masks after it caps. Rows with a +inf, or with a product that float32 can't hold,
    have no promised answer. Raises UsageError for a cap that is negative or not finite; 0 is none.
    """
    caps.check(softcap)
    if not softcap:
        return inner
    of = _Capped(inner, softcap, scale)
    return replace(
        inner,
        parameters={**inner.parameters, "softcap": softcap},
        answer=of.answer,
        prove=of.prove,
        decimal=of.decimal,
        bounds=of.bounds,
        undefined=of.undefined,
        scale=None if inner.scale is None else of.scale,
        yardstick=of.yardstick,
        gradient=None if inner.gradient is None else _gradient(inner.gradient, of.cap, softcap),
        on_device=None if inner.on_device is None else of.on_device,
    )


def _gradient(inner: Gradient, cap: float, softcap: float) -> Gradient:
    """The chain rule: the gradient by the capped logits times 1 - tanh^2."""

    def errors(
        found: Values, grads: Values, logits: Values, answer: Reference, fmt: Format, arithmetic: Arithmetic
    ) -> GradientErrors:
        of_capped = inner.errors(found, grads, caps.capped(logits, cap), answer, fmt, _with_cap(arithmetic))
        exact = caps.slope(logits, cap) * of_capped.exact
        with np.errstate(invalid="ignore"):
            differences = np.abs(found - exact)
        # 1 - tanh^2 of a tanh that is off by 23 rho, and p of logits that are off by c rho 12: as many ULPs of the computed type.
        narrow = computed_in(arithmetic, fmt)[1]
        more = (3 * ROUNDINGS + 4 * 12 * softcap) * narrow.unit_roundoff * 2.0**fmt.precision
        return GradientErrors(
            exact,
            np.where(np.isfinite(found), differences, np.inf) * of_capped.per_ulp,
            of_capped.limits + more,
            of_capped.per_ulp,
        )

    return Gradient(errors=errors, scale=f"{inner.scale} of capped logits", size=inner.size, second=None)


def _with_cap(arithmetic: Arithmetic) -> Arithmetic:
    return msgspec.structs.replace(arithmetic, scaled_logits=True)
