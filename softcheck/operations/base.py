"""Logarithms of base 2 in place of e: log2 of the softmax, and of the sum of exponentials. docs/bounds.md, section 28, has the bound."""

import math
from dataclasses import replace
from decimal import Context, Decimal
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from oracles._double_word import DoubleWord, multiply
from oracles.formats import Format, Values
from oracles.reference import FullyMasked, Reference
from softcheck.errors import UsageError
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.bounds import LARGEST_EXPONENT, Bounds, Model
from softcheck.operations.expression import half_ulp
from softcheck.operations.gradient import Gradient, GradientErrors
from softcheck.operations.operation import Limits, Operation
from softcheck.operations.rules import POWERS_SUM_TO_ONE, sum_words
from softcheck.operations.ulp import Scaled

if TYPE_CHECKING:
    import torch

LOG2E = 1.0 / math.log(2.0)
_LOW = 2.0355273740931033e-17
"""log2(e) - ``LOG2E``, rounded to float64."""
_SUMMED = 2.0**-50
_LARGE = 2.0**900
"""Size from which a product of two float64 as double words may overflow on its way: such a factor is divided by it before."""

_POWERS = replace(POWERS_SUM_TO_ONE, describe=partial(sum_words, summed="the sum of 2^y over the outputs y"))


def in_base(plain: Operation, base: float) -> Operation:
    """Returns an operation whose answers are logarithms of base 2 for ``plain``, whose answers are natural ones.

    Raises UsageError for another base than e and 2.
    """
    if base == math.e:
        return plain
    if base != 2:
        raise UsageError(f"the base is {base:g}; expected 2, or no base for natural logarithms")

    def scale(values: Values, answers: Values, fmt: Format) -> Values:
        assert plain.scale is not None
        return LOG2E * plain.scale(values, answers / LOG2E, fmt)

    def prove(values: Values, fmt: Format, masked: FullyMasked) -> Reference:
        return _in_base_two(plain.prove(values, fmt, masked))

    def decimal(row: Values, column: int, fmt: Format, masked: FullyMasked) -> str:
        proven = prove(row[None], fmt, masked)
        place = (0, column if proven.high.shape[1] > 1 else 0)
        high, low, exponent = (float(part[place]) for part in (proven.high, proven.low, proven.exponent))
        power = Decimal(2) ** int(exponent)
        found = Context(prec=20).multiply(Context(prec=40).add(Decimal(high), Decimal(low)), power)
        return f"{found:g}" if np.isfinite(high) else f"{high:g}"

    return replace(
        plain,
        parameters={**plain.parameters, "base": base},
        answer=lambda values, fmt, masked: _in_base_two(plain.answer(values, fmt, masked)),
        prove=prove,
        decimal=decimal,
        bounds=partial(_bounds, plain),
        rules=tuple(_POWERS if rule is POWERS_SUM_TO_ONE else rule for rule in plain.rules),
        probabilities=_powers if plain.sums_rows else plain.probabilities,
        scale=scale,
        yardstick=lambda x: plain.yardstick(x) * LOG2E,
        gradient=None if plain.gradient is None else _gradient(plain, plain.gradient),
        on_device=None if plain.on_device is None else partial(_on_device, plain),
    )


def _in_base_two(natural: Reference) -> Reference:
    """A reference's logarithms times log2(e), as two float64."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        by = np.where(np.abs(natural.high) < _LARGE, 1.0, _LARGE)
        found = multiply(DoubleWord(natural.high / by, natural.low / by), DoubleWord(np.array(LOG2E), np.array(_LOW)))
        high = np.where(np.isfinite(natural.high), found.high * by, natural.high)
    # What float64 does not hold is infinite for every format.
    is_finite = np.isfinite(high)
    low = np.where(is_finite, found.low * by, 0.0)
    relative = np.where(natural.high == 0, natural.relative_error, natural.relative_error * (1 + 2.0**-50) + 2.0**-102)
    relative = np.where(is_finite, relative, 0.0)
    return replace(
        natural,
        high=high,
        low=low,
        relative_error=relative,
        absolute_error=2 * natural.absolute_error,
        settled=False,
    )


def _bounds(plain: Operation, values: Values, exact: Scaled, answers: Values, model: Model) -> Bounds:
    """The natural logarithm's error times log2(e), and the roundings of products with it."""
    natural = plain.bounds(values, exact, answers / LOG2E, replace(model, rounds_result=False))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        size = np.abs(answers)
        if not plain.sums_rows and plain.scale is not None:
            size = np.maximum(size, LOG2E * plain.scale(values, answers / LOG2E, exact.fmt))
        hidden = natural.elements == 0
        error = LOG2E * natural.elements * exact.ulp + 4 * model.roundoff * np.where(np.isfinite(size), size, 0.0)
        error = np.where(hidden, 0.0, error)
        rounding = np.where(
            hidden, 0.0, half_ulp(np.where(np.isfinite(answers), np.abs(answers), 0.0) + error, exact.fmt)
        )
        total = error + rounding if model.rounds_result else error
        elements = np.minimum(total / exact.ulp, np.finfo(np.float64).max)
        sums = natural.sums
        if plain.sums_rows:
            grown = np.expm1(np.minimum(total / LOG2E, LARGEST_EXPONENT))
            sums = np.minimum((np.exp2(answers) * grown).sum(axis=1) + _SUMMED, values.shape[1] + 1.0)
    return Bounds(elements, rounding / exact.ulp, model.rounds_result, sums)


def _on_device(
    plain: Operation,
    x: "torch.Tensor",
    fmt: Format,
    model: Model | None,
    *,
    strict: bool = False,
    scale: float = 1.0,
) -> Limits:
    """The same on a device."""
    import torch

    from softcheck.operations import torch_bounds

    assert plain.on_device is not None
    assert scale == 1.0, "an operation of base 2 has a scale of its own"
    natural = plain.on_device(x, fmt, None if model is None else replace(model, rounds_result=False), strict=strict)
    exact = natural.exact * LOG2E
    size = exact.abs()
    unit = size.clamp(min=LOG2E)
    if not plain.sums_rows:
        top = x.amax(dim=1, keepdim=True).to(torch.float64)
        size = unit = torch.maximum(unit, (top.abs() + (natural.exact - top)) * LOG2E).nan_to_num_(nan=1.0)
    per_ulp = torch_bounds.inverse_ulp(unit, fmt, strict=strict, of_scale=True)
    # The constant and the product round.
    found = natural._replace(
        exact=exact, per_ulp=per_ulp, uncertainty=natural.uncertainty + 2.0 ** (fmt.precision - 52), sums=None
    )
    if model is None or natural.limits is None:
        return found
    error = natural.limits / natural.per_ulp * LOG2E + 4 * model.roundoff * size
    if model.rounds_result:
        error += half_ulp(exact.abs() + error, fmt)
    if plain.sums_rows:
        grown = torch.expm1((error / LOG2E).clamp_(max=LARGEST_EXPONENT)).mul_(torch.exp2(exact))
        found = found._replace(sums=(grown.sum(dim=1) + _SUMMED).clamp_(max=x.shape[1] + 1.0))
    return found._replace(limits=error * per_ulp)


def _powers(outputs: Values) -> Values:
    """The probabilities of outputs, which may be a tensor too."""
    found: Values = np.exp2(outputs) if isinstance(outputs, np.ndarray) else outputs.exp2()
    return found


def _gradient(plain: Operation, gradient: Gradient) -> Gradient:
    """The chain rule: the gradient for g is that of the natural logarithm for g log2(e)."""

    def errors(
        found: Values, grads: Values, logits: Values, _answer: Reference, fmt: Format, arithmetic: Arithmetic
    ) -> GradientErrors:
        return gradient.errors(found, grads * LOG2E, logits, plain.prove(logits, fmt, "nan"), fmt, arithmetic)

    second = gradient.second
    return replace(
        gradient,
        errors=errors,
        scale=f"{gradient.scale}, g times log2(e)",
        size=lambda p, g: gradient.size(p, g * LOG2E),
        second=None if second is None else lambda p, g, w: second(p, g * LOG2E, w),
    )
