"""``triton.jit``, and whether the kernels decorated here are interpreted."""

from collections.abc import Callable
from typing import Any

import triton

jit: Callable[[Callable[..., Any]], Any] = triton.jit
"""``triton.jit``, which publishes no types, typed as what it is: a decorator."""

constexpr_function: Callable[[Callable[..., Any]], Any] = triton.constexpr_function
"""As above, for what kernels compute while they are compiled."""


def jit_for_all(*names: str) -> Callable[[Callable[..., Any]], Any]:
    """``jit``, with one kernel whatever these arguments are: else one each for the number 1, multiples of 16, aligned pointers."""
    made: Any = triton.jit
    decorator: Callable[[Callable[..., Any]], Any] = made(do_not_specialize=names, do_not_specialize_on_alignment=names)
    return decorator


OPTIONS = {"enable_fp_fusion": True, "sanitize_overflow": False}
"""Options of every launch, so that neither Triton's default (its fusion's changes after 3.9) nor TRITON_DEBUG decides.

The kernels' margins allow for multiplications and additions fused or not, and what must be fused says so with ``tl.fma``;
their integers wrap on purpose, where TRITON_DEBUG would trap.
"""

INTERPRETED = bool(triton.knobs.runtime.interpret)
"""Triton decides this for each kernel when it is decorated, so for all of this package when it is imported."""
