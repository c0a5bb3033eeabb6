"""Softmax as five torch operations in the input dtype, run one by one and through torch.compile."""

import threading
from collections.abc import Callable
from functools import cache

import msgspec
import torch

from softcheck.contract import FindingKind
from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.builtin._common import ALL_DTYPES, new_output
from softcheck.variants.declaration import KnownDefect, Traffic, variant

_RECOMPILE_LIMIT = 2048
"""Well above the graphs (some 25 per dtype) that sizes of one and orders of strides ask for."""
_limits = threading.local()
"""True in threads whose limits are raised: torch's settings are each thread's own."""


def _five_operations(x: torch.Tensor) -> torch.Tensor:
    shifted = x - x.amax(dim=-1, keepdim=True)
    exponentials = torch.exp(shifted)
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


_ACCURACY = (FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION)

_OVERFLOW = KnownDefect(
    kinds=_ACCURACY,
    dtypes=("float16",),
    cases=(
        *("uniform/*", "negative/*", "wide/*", "cancellation/*", "generated/*", "regression/*"),
        *("probe/meetings/*", "probe/regimes/*", "probe/volume/*"),
    ),
    reason="a sum of exponentials above 65504 overflows float16, and the whole row becomes zeros",
)

_ROUNDED_EACH_TIME = Arithmetic(exp="libdevice", division="div_rn", intermediate="input")
"""Each operation rounds its result to the input type; a sum is added up in float32 and rounded once."""


@variant(
    dtypes=ALL_DTYPES,
    dimensions=4,
    description="five torch operations: row maximum, subtract, exponential, row sum, divide",
    provenance="tutorial on fused softmax, unfused version",
    traffic=Traffic(reads=5, writes=3, row_reads=2, row_writes=2),
    arithmetic=_ROUNDED_EACH_TIME,
    known_defects=(_OVERFLOW,),
)
def eager(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    # The maximum of no elements is undefined, so torch refuses it.
    return _five_operations(x) if x.numel() else new_output(x)


@variant(
    dtypes=ALL_DTYPES,
    description="the five operations of eager through torch.compile with dynamic shapes",
    provenance="tutorial on fused softmax, compiled version",
    # Without a GPU the captured graph runs operation by operation. On one, where Inductor does not fuse everything (very wide
    # or transposed rows), results between its kernels are stored in the 16-bit type.
    arithmetic=_ROUNDED_EACH_TIME,
    known_defects=(
        msgspec.structs.replace(_OVERFLOW, backends=("interpreter",)),
        KnownDefect(
            # A matrix that Inductor adds up in one part where it is packed, and in several where it is transposed.
            kinds=(*_ACCURACY, FindingKind.WRONG_LAYOUT),
            dtypes=("float16",),
            backends=("cuda",),
            cases=(
                *("uniform/65536/*", "uniform/131072/*", "negative/minus-100-65537/*"),
                *("probe/meetings/*", "probe/regimes/*", "probe/volume/*"),
            ),
            always=False,
            reason="where Inductor adds up a very wide row in parts, it stores their sum in float16, which overflows above 65504",
        ),
        KnownDefect(
            kinds=_ACCURACY,
            dtypes=("float16", "float32"),
            backends=("cuda",),
            cases=("cancellation/absorbed-65537/*", "probe/meetings/*", "probe/regimes/*", "probe/volume/*"),
            max_share=5.0,
            always=False,
            reason="Inductor adds thousands of terms of a very wide row one after another in float32, where those below half an "
            "ULP of the partial sum are lost",
        ),
        KnownDefect(
            kinds=(FindingKind.CRASH,),
            backends=("cuda",),
            cases=("probe/histories/*", "probe/meetings/*"),
            always=False,
            reason="Inductor takes each torch.nn.Parameter for aligned to 16 bytes: one at another offset ends in a misaligned load",
        ),
    ),
)
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
