"""Evidence of a variant's arithmetic, or of torch's sums, from a call: it may allow a bound that was not asked for.

On a GPU the kernels are those that Triton launches in a call. If Triton interprets kernels, they are compiled ahead, in
another process, for ``ahead.TARGET``. Triton is imported only on a GPU.
"""

from collections.abc import Sequence
from functools import cache

import torch

from oracles.formats import FORMATS
from softcheck.calling.call import TORCH_DTYPES, Dispatched, Placed, Returned, call_on_device
from softcheck.operations.arithmetic import Arithmetic
from softcheck.toolchain.ptx import Kernel, read_arithmetic, shown_arithmetic
from softcheck.variants.ahead import AheadError, compile_ahead
from softcheck.variants.registry import LoadedVariant

_SUMS = frozenset(
    {
        *("_softmax", "_log_softmax", "_safe_softmax", "logsumexp", "_logcumsumexp"),
        *("sum", "nansum", "cumsum", "mean", "linalg_vector_norm"),
        *("dot", "mv", "mm", "bmm", "addmv", "addmm", "baddbmm"),
    }
)
"""Torch's own operations that add up numbers, by their names in ``aten``."""


@cache
def shown(
    variant: LoadedVariant, dtype: str, shape: tuple[int, int], *, on_gpu: bool, device: torch.device
) -> Arithmetic | None:
    """Returns the arithmetic shown by the kernels that a variant launches for a contiguous input.

    Returns None if nothing can be told: no kernel with PTX holds an exponential (a library's kernels are not seen), the
    call or the compiler fails, or the PTX has no model. ``dtype`` and ``shape`` are the input's. With ``on_gpu`` the
    variant is called once on zeros on ``device``; otherwise its host code runs in another process. Each question is
    answered once per process.
    """
    try:
        if on_gpu:
            kernels = _launched(variant, dtype, shape, device)
        else:
            kernels = compile_ahead(variant.name, variant.fact, dtype, shape)
        observed = read_arithmetic(kernels)
        return shown_arithmetic(observed, dtype) if observed.exponentials else None
    except (AheadError, ValueError):
        return None


def _launched(variant: LoadedVariant, dtype: str, shape: tuple[int, int], device: torch.device) -> Sequence[Kernel]:
    from softcheck.toolchain.compile import launched

    with launched() as kernels:
        returned = _call_on_zeros(variant, dtype, shape, device)
    # After a failed call the kernels seen may not be all.
    return [] if returned.output is None else kernels


@cache
def torch_sums(variant: LoadedVariant, dtype: str, shape: tuple[int, int], device: torch.device) -> bool:
    """True if torch adds up numbers in a call, on zeros, of a variant with a contiguous input of a dtype and a shape."""
    # The first call may tune or compile, which takes sums of others' own.
    _call_on_zeros(variant, dtype, shape, device)
    with Dispatched() as dispatched:
        _call_on_zeros(variant, dtype, shape, device)
    return any(name.rpartition(".")[2] in _SUMS for name in dispatched.operations)


def _call_on_zeros(variant: LoadedVariant, dtype: str, shape: tuple[int, int], device: torch.device) -> Returned:
    x = torch.zeros(shape, dtype=TORCH_DTYPES[dtype], device=device)
    return call_on_device(variant.function, Placed(x, x.view(-1), FORMATS[dtype]), variant.operation)
