"""Poison for memory that torch hands out uninitialised, so that an output that was never written shows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch


@contextmanager
def nan_filled() -> Iterator[None]:
    """Every ``torch.empty`` of any kind is filled with NaN, inside torch itself, so that no import order escapes it.

    Source: torch.utils.deterministic.fill_uninitialized_memory, which acts while deterministic algorithms are on;
    ``warn_only`` keeps operations that have no deterministic form working.
    """
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    filling = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = filling  # type: ignore[attr-defined]
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)


@contextmanager
def filled(value: float) -> Iterator[None]:
    """Makes torch hand out uninitialised memory filled with one value. Tells "unwritten" from "computed NaN".

    Replaces the functions by name, so code that took its own reference to one before escapes it: enough to explain a
    failure, not to judge. A dispatch mode would miss nothing, but torch.compile gives a function up for good that it
    meets under one.
    """
    originals = [(owner, name, getattr(owner, name)) for owner, name in _HANDING_OUT]
    for owner, name, original in originals:
        setattr(owner, name, _filling(original, value))
    try:
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


_HANDING_OUT: tuple[tuple[Any, str], ...] = (
    (torch, "empty"),
    (torch, "empty_like"),
    (torch, "empty_strided"),
    (torch.Tensor, "new_empty"),
    (torch.Tensor, "new_empty_strided"),
)


def _filling(original: Callable[..., Any], value: float) -> Callable[..., Any]:
    @wraps(original)
    def fill(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        if result.is_floating_point():
            result.fill_(value)
        return result

    return fill
