"""Telling a kernel's own error from what Triton's interpreter, or a machine without a GPU, can't do. Imports no Triton."""

import traceback
from collections.abc import Iterator

import torch

from softcheck.errors import UninterpretableError

_NEEDS_GPU = ("/torch/cuda/", "/triton/runtime/driver.py")
"""Where torch and Triton raise for want of a device."""


def uninterpretable(operation: str) -> UninterpretableError:
    """The error for an operation that Triton's interpreter can't run, in the words of reports."""
    return UninterpretableError(f"Triton's interpreter can't run this: {operation}; judge it on a GPU")


def limit_behind(error: BaseException) -> UninterpretableError | None:
    """What the interpreter, or this machine, can't do, where that is why a call raised ``error``; None for its own faults.

    Triton wraps what is raised in a kernel, once per function, and wrappers may do so again: the first cause decides.
    """
    for cause in causes(error):
        if isinstance(cause, UninterpretableError):
            return cause
        frames = traceback.extract_tb(cause.__traceback__)
        raised_in = frames[-1].filename.replace("\\", "/") if frames else ""
        if isinstance(cause, NotImplementedError) and raised_in.endswith("triton/runtime/interpreter.py"):
            return uninterpretable(str(cause))
        if not torch.cuda.is_available() and any(place in raised_in for place in _NEEDS_GPU):
            said = " ".join(str(cause).split())[:100]
            return UninterpretableError(f"this can't run without a GPU: {said}; judge it on one")
    return None


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, then what it was raised from or while handling, back to the first."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
