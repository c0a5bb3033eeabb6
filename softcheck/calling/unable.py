"""Distinction of a kernel's own errors from limits of Triton's interpreter, or of a machine without a GPU.

Imports no Triton.
"""

import os
import traceback
from collections.abc import Iterator

import torch

from softcheck.calling.cuda_only import insists_on_cuda, names_cuda
from softcheck.errors import UninterpretableError

_NEEDS_GPU = ("/torch/cuda/", "/triton/runtime/driver.py")
"""Files of torch and Triton that raise if there is no device."""


def uninterpretable(operation: str) -> UninterpretableError:
    """The error for an operation that Triton's interpreter can't run, in the words of reports."""
    return UninterpretableError(f"Triton's interpreter can't run this: {operation}; judge it on a GPU")


def limit_behind(error: BaseException) -> UninterpretableError | None:
    """Returns what the interpreter, or this machine, can't do, if that is why a call raised ``error``.

    Returns None for an error of the variant itself. Triton wraps an exception raised in a kernel once per function, and
    wrappers may do so again: the first cause decides.
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
            return UninterpretableError(f"this can't run without a GPU: {said}{names_cuda(cause)}; judge it on one")
        if os.environ.get("TRITON_INTERPRET") == "1" and (line := insists_on_cuda(cause)) is not None:
            return UninterpretableError(
                f"this can't run without a GPU: it insists on CUDA tensors at {line}; judge it on one"
            )
    return None


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the error, then the exception that it was raised from or while handling, and so on back to the first."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
