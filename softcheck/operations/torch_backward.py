"""Exact values and limits of the backwards of softmax and log-softmax, in torch's float64 on any device.

The formulas are those of ``softcheck.operations.backward``. Products of an output and a gradient of up to 32 bits are exact in
float64; what it is off by is the sum's error and a few roundings, relative to the sizes that the ULP is of.
"""

import torch

from oracles.formats import Format
from softcheck.operations import bounds
from softcheck.operations.expression import backward_error, half_ulp
from softcheck.operations.operation import Limits
from softcheck.operations.torch_bounds import inverse_ulp, summing_error


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

    With ``is_logarithm`` y is a log-softmax, else a softmax. A row whose y is NaN has NaN.
    """
    columns = y.shape[1]
    y, g = y.to(torch.float64), grad.to(torch.float64)
    p, sizes_of_g = (y.exp() if is_logarithm else y), g.abs()
    # |g| and the terms' sizes, or both times y: what the ULP is of is one times 1 or p, and p times a sum of the other.
    if is_logarithm:
        total, sizes = g.sum(dim=1, keepdim=True), sizes_of_g.sum(dim=1, keepdim=True)
        exact, part = torch.addcmul(g, p, total, value=-1.0), sizes_of_g
    else:
        total, part = (y * g).sum(dim=1, keepdim=True), sizes_of_g * p
        sizes = part.sum(dim=1, keepdim=True)
        exact = (g - total).mul_(p)
    scale = torch.addcmul(part, p, sizes)
    per_ulp = inverse_ulp(scale, fmt, strict=strict, of_scale=True)
    uncertainty = summing_error(columns) * 2.0**fmt.precision
    if model is None:
        return Limits(exact, per_ulp, None, None, uncertainty)
    error = backward_error(y, g, fmt, model, is_logarithm=is_logarithm)
    if model.rounds_result:
        error += half_ulp(exact.abs() + error, fmt)
    return Limits(exact, per_ulp, error.mul_(per_ulp), None, uncertainty)
