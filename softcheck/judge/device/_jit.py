"""``triton.jit``, and whether the kernels decorated here are interpreted."""

from collections.abc import Callable
from typing import Any

import triton

jit: Callable[[Callable[..., Any]], Any] = triton.jit
"""``triton.jit``, which publishes no types, typed as what it is: a decorator."""

INTERPRETED = bool(triton.knobs.runtime.interpret)
"""Triton decides this for each kernel when it is decorated, so for all of this package when it is imported."""
