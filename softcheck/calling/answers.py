"""Whole answers of calls, for who looks at more of them than the part that is judged."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

_kept: ContextVar[list[Any] | None] = ContextVar("kept", default=None)


@contextmanager
def kept() -> Iterator[list[Any]]:
    """Keeps what functions return to the calls within, in a list, until the end of the block."""
    found: list[Any] = []
    token = _kept.set(found)
    try:
        yield found
    finally:
        _kept.reset(token)


def noted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function; one that keeps what the function returns, if that is asked for."""
    found = _kept.get()
    if found is None:
        return function

    @wraps(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        found.append(function(*args, **kwargs))
        return found[-1]

    return noting
