"""Softmax as five torch operations in the input dtype, run one by one and through torch.compile."""

import threading
from collections.abc import Callable
from functools import cache

import torch

from softcheck.variants.builtin._common import new_output
from softcheck.variants.builtin.declarations import declared

_RECOMPILE_LIMIT = 2048
"""Well above the graphs (some 25 per dtype) that sizes of one and orders of strides ask for."""
_limits = threading.local()
"""True in threads whose limits are raised: torch's settings are each thread's own."""


def _five_operations(x: torch.Tensor) -> torch.Tensor:
    shifted = x - x.amax(dim=-1, keepdim=True)
    exponentials = torch.exp(shifted)
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@declared("eager")
def eager(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    # The maximum of no elements is undefined, so torch refuses it.
    return _five_operations(x) if x.numel() else new_output(x)


@declared("eager_compiled")
def eager_compiled(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    if not hasattr(_limits, "are_raised"):
        _raise_limits()
    return _compiled(x.device.type)(x) if x.numel() else new_output(x)


def _raise_limits() -> None:
    # Raised for good: a patch around each call would take as long as the call. Past the limit torch.compile
    # quietly runs eager, so that the table would show the wrong variant; fullgraph makes it raise instead.
    config = torch._dynamo.config  # noqa: SLF001 - the documented home of these settings
    config.recompile_limit = max(config.recompile_limit, _RECOMPILE_LIMIT)
    config.accumulated_recompile_limit = max(config.accumulated_recompile_limit, _RECOMPILE_LIMIT)
    _limits.are_raised = True


@cache
def _compiled(device_type: str) -> Callable[[torch.Tensor], torch.Tensor]:
    # On a CPU, Inductor would need a C++ compiler and write code that says nothing of the GPU kernel; aot_eager checks
    # that the graph is captured and traced.
    backend = "inductor" if device_type == "cuda" else "aot_eager"
    return torch.compile(_five_operations, fullgraph=True, dynamic=True, backend=backend)
