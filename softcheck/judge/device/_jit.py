"""``triton.jit`` with types, launch options, and a flag for interpreted kernels."""

from collections.abc import Callable
from typing import Any

import triton

jit: Callable[[Callable[..., Any]], Any] = triton.jit
"""``triton.jit``, typed as a decorator. Triton publishes no types."""

constexpr_function: Callable[[Callable[..., Any]], Any] = triton.constexpr_function
"""A decorator, like ``jit``, for functions that run while a kernel is compiled."""


def jit_for_all(*names: str) -> Callable[[Callable[..., Any]], Any]:
    """Returns ``jit`` that compiles one kernel for all values of these arguments.

    Without it Triton compiles one kernel each for the number 1, multiples of 16, and aligned pointers.
    """
    made: Any = triton.jit
    decorator: Callable[[Callable[..., Any]], Any] = made(do_not_specialize=names, do_not_specialize_on_alignment=names)
    return decorator


OPTIONS = {"enable_fp_fusion": True, "sanitize_overflow": False}
"""Options of every launch, so that neither Triton's default for fusion nor TRITON_DEBUG decides.

Triton's default changes after 3.9. The kernels' margins allow for multiplications and additions fused or not, and
operations that must be fused use ``tl.fma``. The kernels' integers wrap on purpose, where TRITON_DEBUG would trap.
"""

INTERPRETED = bool(triton.knobs.runtime.interpret)
"""True if the kernels of this package are interpreted. Triton decides this for each kernel when it is decorated, and so
for all of them at import."""
