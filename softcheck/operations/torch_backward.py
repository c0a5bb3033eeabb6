"""Exact values and limits of the backwards of softmax and log-softmax, in torch's float64 on any device.

The formulas are those of ``softcheck.operations.backward``. Products of an output and a gradient of up to 32 bits are exact in
float64; what it is off by is the sum's error and a few roundings, relative to the sizes that the ULP is of.
"""

import torch

from oracles.formats import Format
from softcheck.operations import bounds
from softcheck.operations.backward import SECOND_ORDER
from softcheck.operations.operation import Limits
from softcheck.operations.torch_bounds import half_ulp, inverse_ulp, summing_error


def backward_limits(
    y: torch.Tensor,
    grad: torch.Tensor,
    fmt: Format,
    model: bounds.Model | None,
    *,
    is_logarithm: bool,
    strict: bool = False,
) -> Limits:
    """Returns exact values, and limits by an arithmetic, of the backward of ``y`` and its ``grad``, [rows, columns].

    With ``is_logarithm`` y is a log-softmax, else a softmax. Rows whose logits give NaN have no meaning.
    """
    columns = y.shape[1]
    y, g = y.to(torch.float64), grad.to(torch.float64)
    p = y.exp() if is_logarithm else y
    terms = g if is_logarithm else y * g
    total, sizes = terms.sum(dim=1, keepdim=True), terms.abs().sum(dim=1, keepdim=True)
    if is_logarithm:
        exact = g - p * total
        scale = (p * sizes).add_(g.abs())
    else:
        exact = (g - total).mul_(p)
        scale = g.abs().add_(sizes).mul_(p)
    per_ulp = inverse_ulp(torch.maximum(scale, exact.abs()), fmt, strict=strict)
    uncertainty = summing_error(columns) * 2.0**fmt.precision
    if model is None:
        return Limits(exact, per_ulp, None, None, uncertainty)
    of_sum = (bounds.depth(columns, model.lanes) * model.addition + 4 * model.roundoff) * sizes
    least = model.underflow * (1 + g.abs().amax(dim=1, keepdim=True)) * columns
    if is_logarithm:
        far = torch.where(y.isfinite(), -y, 0.0)
        of_exponential = far.mul_(model.exponent).add_(model.exponential).mul_(p).mul_(total.abs() + of_sum)
        error = of_exponential.add_(p * of_sum).add_(scale, alpha=4 * model.roundoff)
    else:
        products = fmt.unit_roundoff * p * g.abs()
        error = (p * (of_sum + products.sum(dim=1, keepdim=True))).add_(scale, alpha=4 * model.roundoff).add_(products)
    error = error.mul_(SECOND_ORDER).add_(least)
    if model.rounds_result:
        error += half_ulp(exact.abs() + error, fmt)
    return Limits(exact, per_ulp, error.mul_(per_ulp), None, uncertainty)
