"""``triton.jit`` with types, launch options, and a flag for interpreted kernels."""

from collections.abc import Callable, Hashable
from typing import Any

import torch
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

_ALIGNED = 16
"""Bytes to which Triton looks at a pointer's alignment."""

INTERPRETED = bool(triton.knobs.runtime.interpret)
"""True if the kernels of this package are interpreted. Triton decides this for each kernel when it is decorated, and so
for all of them at import."""

_MOST_CHOSEN = 256
_chosen: dict[Hashable, Any] = {}


def launch_on(
    x: torch.Tensor, y: torch.Tensor, kernel: Any, programs: int, key: Hashable, arguments: Any, options: dict[str, Any]
) -> None:
    """Launches a kernel on two matrices, without Triton's choice of the compiled kernel if it was made before.

    The choice takes longer than the kernel takes for many a matrix. It depends on the dtypes, shapes, strides and
    alignments of both matrices, and otherwise on ``key`` alone. ``arguments`` are the kernel's own after the matrices,
    constants of compilation included; other tensors among them lie where they lie in every workspace.
    """
    matrices = tuple(
        (each.dtype, each.shape, each.stride(), each.data_ptr() % _ALIGNED, each.device) for each in (x, y)
    )
    place = (kernel, programs, key, matrices)
    chosen = _chosen.get(place)
    if chosen is not None:
        chosen[(programs, 1, 1)](x, y, *arguments)
        return
    chosen = kernel[(programs,)](x, y, *arguments, **options)
    # Without a GPU kernels are interpreted, or compiled for one that is not there.
    if x.is_cuda:
        if len(_chosen) >= _MOST_CHOSEN:
            _chosen.clear()
        _chosen[place] = chosen
