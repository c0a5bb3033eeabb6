"""The small matrix on which calls of a function are tried, and how right their answers are. Imports torch when it is needed."""

from typing import TYPE_CHECKING, Any

import numpy as np

from softcheck.operations.operation import Operation
from softcheck.variants.forms import OPERANDS, Form

if TYPE_CHECKING:
    import torch

_TRIAL = (24, 16)
"""Shape of the matrix on which calls are tried; its rows can be split into four dimensions of more than one."""

_CLOSE = 0.1
"""Largest difference from the softmax with which a call is accepted that names alone do not tell."""


def random_matrix(device: "torch.device", dtype: "torch.dtype") -> "torch.Tensor":
    """Returns the same random numbers for each call, [24, 16]."""
    import torch

    return torch.randn(_TRIAL, generator=torch.Generator().manual_seed(0)).to(device=device, dtype=dtype)


def with_answer(plain: "torch.Tensor", form: Form, operation: Operation | None) -> "tuple[torch.Tensor, torch.Tensor]":
    """Returns the matrix on which a call is tried, made of ``plain``, and the operation's answer for it in float64."""
    import torch

    trial = plain.clone()
    if operation is None:
        return trial, torch.softmax(trial.double(), dim=-1)
    if operation.arguments is not None:
        trial = operation.arguments.trial(trial, form.names)
    return trial, operation.yardstick(trial.double())


def share_right(value: "torch.Tensor", expected: "torch.Tensor", form: Form) -> float:
    """Returns the share of elements that are close to the expected ones; less than 0 for NaN alone, but where a mask may let it through.

    Where NaN is expected, as of a query that sees no key, conventions differ, and nothing counts.
    """
    if bool(value.isnan().all()) and not form.names & OPERANDS:
        return -1.0
    counts = ~expected.isnan()
    return float(((value.double() - expected).abs() < _CLOSE)[counts].double().mean())


def is_over_rows(value: Any) -> bool:
    """True if the columns of an answer sum to 1 and its rows do not, as those of a softmax over the first dimension."""
    import torch

    if not isinstance(value, torch.Tensor) or value.dim() != 2 or not value.is_floating_point() or value.is_meta:
        return False
    # Not by torch: whether it sums in a call of the function is asked elsewhere (variants.evidence).
    with np.errstate(all="ignore"):
        columns, rows = (value.detach().double().cpu().numpy().sum(axis=axis) for axis in (0, 1))
    columns, rows = columns[np.isfinite(columns)], rows[np.isfinite(rows)]
    return columns.size > 0 and bool((abs(columns - 1) < _CLOSE).all() and (abs(rows - 1) > _CLOSE).any())
