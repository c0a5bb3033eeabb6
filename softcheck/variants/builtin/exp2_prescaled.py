"""Multiplies the logits by log2(e) before it subtracts the maximum, as many attention kernels do."""

import torch
import triton.language as tl

from softcheck.contract import FindingKind
from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.builtin._common import ALL_DTYPES, MAX_BLOCK, block_and_warps, compute_type, jit, new_output
from softcheck.variants.declaration import KnownDefect, Traffic, variant

_LOG2_E = tl.constexpr(1.4426950408889634)

_WIDE = ("bfloat16", "float32", "float64")
_LARGE = (
    "the product with log2(e) overflows above 0.69 of the largest finite value, and fused with the subtraction it leaves a large "
    "exponent where |x| is large"
)


@jit
def _exp2_prescaled_kernel(
    output: tl.tensor,
    x: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    columns: tl.tensor,
    BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    pointers = x + row * row_stride + column.to(tl.int64) * column_stride
    scaled = tl.load(pointers, mask=inside, other=-float("inf")).to(COMPUTE) * _LOG2_E
    powers = tl.exp2(scaled - tl.max(scaled, axis=0))
    tl.store(output + row * columns + column, powers / tl.sum(powers, axis=0), mask=inside)


@variant(
    dtypes=ALL_DTYPES,
    max_columns=MAX_BLOCK,
    batch_invariant=True,
    description="one block per row; logits times log2(e), then minus the maximum, then exp2",
    provenance="common practice in attention kernels",
    traffic=Traffic(reads=1, writes=1),
    # tl.exp2 compiles to ex2.approx.ftz.f32, unlike tl.exp.
    arithmetic=Arithmetic(exp="prescaled_ex2_approx", flush_to_zero=True),
    known_defects=(
        KnownDefect(
            kinds=(FindingKind.NAN_MISMATCH,),
            dtypes=_WIDE,
            reason=_LARGE,
        ),
        # The exponent that is left may be so large that each power is finite and only their sum is infinite: all zeros.
        KnownDefect(
            kinds=(FindingKind.SUM_VIOLATION,),
            dtypes=_WIDE,
            reason=_LARGE,
            cases=("probe/volume/*", "probe/regimes/*"),
            always=False,
        ),
    ),
)
def exp2_prescaled(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    output = new_output(x)
    if output.numel():
        rows, columns = x.shape
        block, warps = block_and_warps(columns)
        # Fusion is asked for because Triton 3.10 changes its default, and the declared defects depend on it.
        _exp2_prescaled_kernel[(rows,)](
            output, x, *x.stride(), columns, block, compute_type(x), num_warps=warps, enable_fp_fusion=True
        )
    return output
