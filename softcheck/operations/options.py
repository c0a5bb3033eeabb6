"""Options of an operation: scaled logits, such as softmax(x / sqrt(d)), capped ones, c tanh(x / c), and logarithms of base 2.

Each says what it makes of logits, answers and an arithmetic's constants; the operation that it changes does the rest. docs/bounds.md#options
derives the bounds.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from oracles._double_word import DoubleWord, fast_two_sum, multiply, two_product, two_sum
from oracles.arrays import Array, largest, module_of, quiet
from oracles.formats import FLOAT32, FLOAT64, Format, Values, widest
from oracles.reference import FullyMasked, Reference
from softcheck.errors import UsageError
from softcheck.numbers.expression import Number
from softcheck.numbers.model import EXACT, Model
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.bounds import Bounds, of_values
from softcheck.operations.gradient import ROUNDINGS, Gradient, GradientErrors, computed_in
from softcheck.operations.operation import Exact, Operation, as_they_are, functions_of
from softcheck.operations.rules import POWERS_SUM_TO_ONE, sum_words
from softcheck.operations.ulp import Scaled

if TYPE_CHECKING:
    import torch

_UNIT = 2.0**-53
_FARTHEST = 1200.0
"""Distance beyond which every oracle gives 0, or the distance itself."""


class Changed:
    """An operation of changed logits, or with changed answers, as the functions of an operation: by itself it changes nothing."""

    of_uncertainty = 0.0
    """Relative error that is added to answers on a device."""

    def __init__(self, inner: Operation) -> None:
        """Takes the operation that is changed."""
        self.inner = inner
        self._of: Any = inner

    def change(self, x: Number) -> Number:
        """Returns the logits that the inner operation takes, with the errors that an arithmetic makes on its way to them."""
        return x

    def changed(self, values: Array) -> Array:
        """Returns the values of these logits."""
        return self.change(Number.read(values, EXACT)).value

    def concluded(self, answer: Reference, _values: Values) -> Reference:
        """Returns the answer from the inner operation's for these logits."""
        return answer

    def by(self, oracle: Callable[..., Reference], values: Values, fmt: Format, masked: FullyMasked) -> Reference:
        """Returns the answer by one of the inner operation's oracles."""
        return self.concluded(oracle(self.changed(values), fmt, masked), values)

    def answer(self, values: Values, fmt: Format, masked: FullyMasked) -> Reference:
        """Returns the everyday oracle's answer."""
        return self.by(self.inner.answer, values, fmt, masked)

    def prove(self, values: Values, fmt: Format, masked: FullyMasked) -> Reference:
        """Returns the Arb oracle's answer."""
        return self.by(self.inner.prove, values, fmt, masked)

    def allowed(self, x: Number, exact: Scaled, answers: Array, **of_base: float) -> Bounds:
        """Returns the errors that an arithmetic allows, for logits with errors."""
        return self._of.allowed(self.change(x), exact, answers, **of_base)  # type: ignore[no-any-return]

    def bounds(self, values: Array, exact: Scaled, answers: Array, model: Model) -> Bounds:
        """Returns the same for logits as they are read."""
        return of_values(self.allowed)(values, exact, answers, model)

    def scale(self, values: Array, answers: Array, fmt: Format) -> Array:
        """Returns the size of what is rounded on the way."""
        return self._of.scale(self.changed(values), answers, fmt)

    def on_device(self, x: "torch.Tensor", fmt: Format) -> Exact:
        """Returns exact values where a tensor lies."""
        found: Exact = self._of.on_device(self.changed(x.double()), fmt)
        return found._replace(uncertainty=found.uncertainty + self.of_uncertainty * 2.0**fmt.precision)

    def yardstick(self, x: "torch.Tensor") -> "torch.Tensor":
        """Computes it as torch does."""
        return self.inner.yardstick(self.changed(x)).view(x.shape)

    def operation(self, parameters: dict[str, Any], **own: Any) -> Operation:
        """Returns the changed operation, with what is its own."""
        found = {"parameters": {**self.inner.parameters, **parameters}, **functions_of(self, self.inner), **own}
        return replace(self.inner, **found)


def scaled(plain: Operation, scale: float) -> Operation:
    """Returns the operation of ``scale * x`` for an operation of x that depends on differences of logits alone.

    Rows with a product that float32 can't hold, or float64 for its own inputs, have no promised answer.
    """
    if scale == 1.0:
        return plain
    of = _Scaled(plain, scale)
    gradient = plain.gradient and chained(plain.gradient, "{}, g scaled", scale, of.gradient_errors, second_too=True)
    return of.operation({"scale": scale}, undefined=of.overflows if scale > 1.0 else None, gradient=gradient)


class _Scaled(Changed):
    def __init__(self, inner: Operation, factor: float) -> None:
        super().__init__(inner)
        self.factor = factor

    def change(self, x: Number) -> Number:
        return x.scaled(self.factor)

    def distances(self, values: Array) -> Array:
        """Scaled distances to the row's maximum, at most 0: exact but for two roundings, however large the logits are."""
        top, xp = largest(values), module_of(values)
        with quiet(values):
            return xp.where(xp.isfinite(top), (values - top) * self.factor, values)

    def by(self, oracle: Callable[..., Reference], values: Values, fmt: Format, masked: FullyMasked) -> Reference:
        if fmt == FLOAT64:
            below = self.exact_distances(values)
            return self.corrected(oracle(below.high, fmt, masked), below)
        rounded = self.distances(values)
        answer = oracle(rounded, fmt, masked)
        # The roundings of the distances.
        far = np.where(np.isfinite(rounded), -rounded, 0.0).clip(max=_FARTHEST)
        wider = 3 * _UNIT * (far + far.max(axis=1, keepdims=True, initial=0.0))
        return replace(answer, relative_error=answer.relative_error + wider)

    def on_device(self, x: "torch.Tensor", fmt: Format) -> Exact:
        found: Exact = self._of.on_device(self.distances(x.double()), fmt)
        return found

    def overflows(self, values: Array, fmt: Format) -> Array:
        """Rows with a product that the type computed in can't hold, [rows]."""
        xp = module_of(values)
        return largest(xp.where(xp.isfinite(values), abs(values), 0.0))[:, 0] > widest(fmt).max / self.factor

    def exact_distances(self, values: Values) -> DoubleWord:
        """Scaled distances to the row's maximum as double words, off by at most 2^-103 of themselves."""
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            top = values.max(axis=1, keepdims=True, initial=-np.inf)
            # A difference of the largest numbers overflows, and its product with the scale need not.
            finite = np.where(np.isfinite(values), np.abs(values), 0.0)
            part = np.where(finite.max(axis=1, keepdims=True, initial=0.0) > 2.0**1000, 0.25, 1.0)
            distance = two_sum(values * part, -top * part)
            # No part of a product of mantissas underflows.
            mantissa, exponent = np.frexp(distance.high)
            factor, more = np.frexp(self.factor)
            product = two_product(mantissa, np.full(mantissa.shape, factor))
            exponent = exponent + more + np.where(part < 1, 2, 0)
            low = np.ldexp(product.low, exponent) + distance.low * (self.factor / part)
            found = fast_two_sum(np.ldexp(product.high, exponent), low)
            is_exact = np.isfinite(top) & np.isfinite(values) & np.isfinite(found.low)
        return DoubleWord(np.where(is_exact, found.high, self.distances(values)), np.where(is_exact, found.low, 0.0))

    def corrected(self, answer: Reference, below: DoubleWord) -> Reference:
        """The answer for double words, from that for their high words: the first-order terms of the low words are added."""
        is_logarithm = self.inner.probabilities is not as_they_are
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            counts = below.high > -_FARTHEST
            low = np.where(counts, below.low, 0.0)
            values = answer.values
            powers = np.exp(values) if is_logarithm else values
            mean = np.where(counts & np.isfinite(powers), powers * low, 0.0).sum(axis=1, keepdims=True)
            more = below.low - mean if is_logarithm else answer.high * (low - mean)
            sums = fast_two_sum(answer.high, answer.low + more)
        is_finite = np.isfinite(sums.high) & np.isfinite(sums.low)
        # Squares of the low words, each at most 2^-53 of 1200, and the roundings of the correction.
        return replace(
            answer,
            high=np.where(is_finite, sums.high, answer.high),
            low=np.where(is_finite, sums.low, answer.low),
            relative_error=answer.relative_error + 2.0**-80,
        )

    def gradient_errors(
        self, found: Values, grads: Values, logits: Values, answer: Reference, fmt: Format, arithmetic: Arithmetic
    ) -> GradientErrors:
        """The gradient of f(s x) for g is that of f at s x for s g."""
        return self._of.gradient.errors(  # type: ignore[no-any-return]
            found, grads * self.factor, logits * self.factor, answer, fmt, with_scaled_logits(arithmetic)
        )


def with_scaled_logits(arithmetic: Arithmetic) -> Arithmetic:
    """Returns the arithmetic, which rounds logits before the maximum is subtracted."""
    return msgspec.structs.replace(arithmetic, scaled_logits=True)


def chained(
    plain: Gradient, words: str, factor: float, errors: Callable[..., GradientErrors], *, second_too: bool
) -> Gradient:
    """Returns the gradient by the chain rule with a constant ``factor``, which logits, and the weights of a second derivative, may have too."""
    second = plain.second
    of_weights = factor if second_too else 1.0
    return Gradient(
        errors=errors,
        scale=words.format(plain.scale),
        size=lambda p, g: plain.size(p, g * factor),
        second=None if second is None else lambda p, g, w: second(p, g * factor, w * of_weights),
        probabilities=lambda x: plain.probabilities(x * of_weights),
    )


RELATIVE = 2.0**-49
"""Relative error of ``capped_values``: the division, numpy's tanh, of at most 4 ULPs, and the product round in float64."""
_CAPPED = 11.0
"""Roundings of a capped logit, relative to itself: a scale and its product, the cap, its reciprocal, the quotient, a library's tanh of 2 ULPs,
which counts as 4, and two products."""
_BY_EXPONENTIALS = 12.0
"""Absolute error in units of c rho of a tanh that is made of an exponential, as 2 / (1 + exp(-2 t)) - 1 is."""


def refuse_float64(fmt: Format) -> None:
    """Raises UsageError for float64, whose caps no oracle knows well enough."""
    if fmt == FLOAT64:
        raise UsageError("a soft cap is judged in formats of up to 32 bits; leave float64 out of the dtypes")


def capped_values(values: Array, softcap: float) -> Array:
    """Returns c tanh(x / c) in float64, off by ``RELATIVE`` of itself at most; -inf stays -inf, since it hides a column."""
    xp = module_of(values)
    with quiet(values):
        return xp.where(xp.isneginf(values), -np.inf, softcap * xp.tanh(values / softcap))


def slope(values: Values, softcap: float) -> Values:
    """Returns 1 - tanh(x / c)^2, off by 2^-50 at most."""
    with np.errstate(over="ignore", under="ignore"):
        found: Values = 1.0 - np.tanh(np.where(np.isneginf(values), 0.0, values) / softcap) ** 2
    return found


def with_cap(x: Number, softcap: float) -> Number:
    """Returns capped logits with the errors of a scale and of the cap (docs/bounds.md#options)."""
    return replace(x.scaled(1.0, _CAPPED), off=x.off + _BY_EXPONENTIALS * x.model.roundoff * softcap)


def capped(inner: Operation, softcap: float, scale: float) -> Operation:
    """Returns the operation of ``softcap * tanh(scale * x / softcap)`` for ``inner``, which is the operation of ``scale * x``.

    Logits of -inf stay what they are: a kernel masks after it caps. Rows with a +inf, or with a product that float32 can't hold,
    have no promised answer.
    """
    if not softcap:
        return inner
    of = _Capped(inner, softcap, scale)
    if (gradient := inner.gradient) is not None:
        probabilities = gradient.probabilities
        gradient = replace(
            gradient,
            errors=of.gradient_errors,
            scale=f"{gradient.scale} of capped logits",
            second=None,
            probabilities=lambda x: probabilities(capped_values(x * scale, softcap) / scale),
        )
    return of.operation({"softcap": softcap}, undefined=of.overflows, gradient=gradient)


class _Capped(Changed):
    def __init__(self, inner: Operation, softcap: float, factor: float) -> None:
        super().__init__(inner)
        # The cap of x itself: s (c / s) tanh(x / (c / s)) is c tanh(s x / c).
        self.softcap, self.factor, self.cap = softcap, factor, softcap / factor
        self.of_uncertainty = 4 * RELATIVE * softcap

    def change(self, x: Number) -> Number:
        return with_cap(replace(x, value=capped_values(x.value, self.cap)), self.cap)

    def concluded(self, answer: Reference, _values: Values) -> Reference:
        return replace(answer, relative_error=answer.relative_error + self.of_uncertainty)

    def answer(self, values: Values, fmt: Format, masked: FullyMasked) -> Reference:
        refuse_float64(fmt)
        return super().answer(values, fmt, masked)

    def overflows(self, values: Array, _fmt: Format) -> Array:
        """Rows with a +inf or with a product that float32 can't hold, [rows]."""
        xp = module_of(values)
        sizes = largest(xp.where(xp.isneginf(values), 0.0, abs(values)))[:, 0]
        return sizes * max(self.factor, 1.0) > FLOAT32.max

    def gradient_errors(
        self, found: Values, grads: Values, logits: Values, answer: Reference, fmt: Format, arithmetic: Arithmetic
    ) -> GradientErrors:
        """The gradient by the capped logits times 1 - tanh^2."""
        errors: Callable[..., GradientErrors] = self._of.gradient.errors
        of_capped = errors(found, grads, self.changed(logits), answer, fmt, with_scaled_logits(arithmetic))
        exact = slope(logits, self.cap) * of_capped.exact
        with np.errstate(invalid="ignore"):
            differences = np.abs(found - exact)
        # 1 - tanh^2 of a tanh that is off by 23 rho, and p of logits that are off by c rho 12: as many ULPs of the computed type.
        narrow = computed_in(arithmetic, fmt)[1]
        more = (3 * ROUNDINGS + 4 * 12 * self.softcap) * narrow.unit_roundoff * 2.0**fmt.precision
        kept = np.where(np.isfinite(found), differences, np.inf) * of_capped.per_ulp
        return GradientErrors(exact, kept, of_capped.limits + more, of_capped.per_ulp)


LOG2E = 1.0 / math.log(2.0)
_LOW = 2.0355273740931033e-17
"""log2(e) - ``LOG2E``, rounded to float64."""
_LARGE = 2.0**900
"""Size from which a product of two float64 as double words may overflow on its way: such a factor is divided by it before."""
_POWERS = replace(POWERS_SUM_TO_ONE, describe=partial(sum_words, summed="the sum of 2^y over the outputs y"))


def in_base(plain: Operation, base: float) -> Operation:
    """Returns an operation whose answers are logarithms of base 2 for ``plain``, whose answers are natural ones; itself for base e."""
    if base == math.e:
        return plain
    of = _InBaseTwo(plain)
    gradient = plain.gradient and chained(
        plain.gradient, "{}, g times log2(e)", LOG2E, of.gradient_errors, second_too=False
    )
    powers = {"probabilities": lambda outputs: module_of(outputs).exp2(outputs)} if plain.sums_rows else {}
    rules = tuple(_POWERS if rule is POWERS_SUM_TO_ONE else rule for rule in plain.rules)
    return of.operation({"base": base}, rules=rules, gradient=gradient, **powers)


class _InBaseTwo(Changed):
    def concluded(self, answer: Reference, _values: Values) -> Reference:
        """The logarithms times log2(e), as two float64."""
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            by = np.where(np.abs(answer.high) < _LARGE, 1.0, _LARGE)
            log2e = DoubleWord(np.array(LOG2E), np.array(_LOW))
            found = multiply(DoubleWord(answer.high / by, answer.low / by), log2e)
            high = np.where(np.isfinite(answer.high), found.high * by, answer.high)
        # What float64 does not hold is infinite for every format.
        is_finite = np.isfinite(high)
        relative = answer.relative_error
        relative = np.where(answer.high == 0, relative, relative * (1 + 2.0**-50) + 2.0**-102)
        return replace(
            answer,
            high=high,
            low=np.where(is_finite, found.low * by, 0.0),
            relative_error=np.where(is_finite, relative, 0.0),
            absolute_error=2 * answer.absolute_error,
            settled=False,
        )

    def scale(self, values: Array, answers: Array, fmt: Format) -> Array:
        return LOG2E * self._of.scale(values, answers / LOG2E, fmt)

    def allowed(self, x: Number, exact: Scaled, answers: Array, **_of_base: float) -> Bounds:
        """The natural logarithm's error times log2(e), and the roundings of products with it."""
        return super().allowed(x, exact, answers, base=2.0)

    def on_device(self, x: "torch.Tensor", fmt: Format) -> Exact:
        natural: Exact = self._of.on_device(x, fmt)
        # The constant and the product round.
        return Exact(natural.values * LOG2E, natural.uncertainty + 2.0 ** (fmt.precision - 52))

    def yardstick(self, x: "torch.Tensor") -> "torch.Tensor":
        return self.inner.yardstick(x) * LOG2E

    def gradient_errors(
        self, found: Values, grads: Values, logits: Values, _answer: Reference, fmt: Format, arithmetic: Arithmetic
    ) -> GradientErrors:
        """The gradient for g is that of the natural logarithm for g log2(e)."""
        natural = self.inner.prove(logits, fmt, "nan")
        return self._of.gradient.errors(found, grads * LOG2E, logits, natural, fmt, arithmetic)  # type: ignore[no-any-return]
