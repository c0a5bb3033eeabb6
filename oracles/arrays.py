"""Names for numpy's arrays and torch's tensors alike. Importing this loads no torch."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""A numpy array or a torch tensor of float64."""


def module_of(array: Array) -> Any:
    """Returns numpy for its arrays, and torch for tensors."""
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


def quiet(values: Array) -> AbstractContextManager[None]:
    """Returns a context in which arrays overflow, underflow and have no answer without a warning, as tensors do."""
    is_array = isinstance(values, np.ndarray)
    return np.errstate(over="ignore", under="ignore", invalid="ignore") if is_array else nullcontext()


def largest(values: Array, axis: int = 1, least: float = -np.inf) -> Array:
    """Returns the maximum along an axis, which is kept; ``least`` where it is empty, NaN with a NaN."""
    if isinstance(values, np.ndarray):
        return values.max(axis=axis, keepdims=True, initial=least)
    empty = not values.shape[axis]
    return values.sum(axis, keepdim=True).fill_(least) if empty else values.amax(axis, keepdim=True)
