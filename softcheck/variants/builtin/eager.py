"""Softmax as five torch operations in the input dtype, run one by one and through torch.compile."""

from collections.abc import Callable
from functools import cache

import torch

from softcheck.contract import FindingKind
from softcheck.variants.builtin._common import ALL_DTYPES, new_output
from softcheck.variants.declaration import Arithmetic, KnownDefect, variant

_RECOMPILE_LIMIT = 2048
"""Well above the graphs (some 25 per dtype) that sizes of one and orders of strides ask for."""


def _five_operations(x: torch.Tensor) -> torch.Tensor:
    shifted = x - x.amax(dim=-1, keepdim=True)
    exponentials = torch.exp(shifted)
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@variant(
    dtypes=ALL_DTYPES,
    description="five torch operations: row maximum, subtract, exponential, row sum, divide",
    provenance="tutorial on fused softmax, unfused version",
    arithmetic=Arithmetic(exp="libdevice", division="div_rn", accumulation="input", intermediate="input"),
    known_defects=(
        KnownDefect(
            kinds=(FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION),
            dtypes=("float16", "bfloat16"),
            reason="differences, exponentials and their sum are each rounded to the 16-bit input type",
        ),
    ),
)
def eager(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    # The maximum of no elements is undefined, so torch refuses it.
    return _five_operations(x) if x.numel() else new_output(x)


@variant(
    dtypes=ALL_DTYPES,
    description="the five operations of eager through torch.compile with dynamic shapes",
    provenance="tutorial on fused softmax, compiled version",
    known_defects=(
        KnownDefect(
            kinds=(FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION),
            dtypes=("float16", "bfloat16"),
            backends=("interpreter",),
            reason="without a GPU the captured graph runs operation by operation, rounding to the 16-bit type each time",
        ),
        KnownDefect(
            kinds=(FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION),
            dtypes=("float16", "bfloat16"),
            backends=("cuda",),
            reason="where Inductor does not fuse everything (very wide or transposed rows), results between its kernels are "
            "stored in the 16-bit type; 65536 equal float16 logits give zeros",
        ),
    ),
)
def eager_compiled(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    return _compiled(x.device.type)(x) if x.numel() else new_output(x)


@cache
def _compiled(device_type: str) -> Callable[[torch.Tensor], torch.Tensor]:
    # Raised for the whole process: a patch around each call would take as long as the call. Past the limit torch.compile
    # quietly runs eager, so that the table would show the wrong variant; fullgraph makes it raise instead.
    config = torch._dynamo.config  # noqa: SLF001 - the documented home of these settings
    config.recompile_limit = max(config.recompile_limit, _RECOMPILE_LIMIT)
    config.accumulated_recompile_limit = max(config.accumulated_recompile_limit, _RECOMPILE_LIMIT)
    # On a CPU, Inductor would need a C++ compiler and write code that says nothing of the GPU kernel; aot_eager checks
    # that the graph is captured and traced.
    backend = "inductor" if device_type == "cuda" else "aot_eager"
    return torch.compile(_five_operations, fullgraph=True, dynamic=True, backend=backend)
