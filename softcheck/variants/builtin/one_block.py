"""One program per row, the whole row in one block."""

import torch
import triton
import triton.language as tl

from softcheck.contract import FindingKind
from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.builtin._common import (
    ALL_DTYPES,
    MAX_BLOCK,
    MAX_BLOCK_OF_FOUR_WARPS,
    block_and_warps,
    compute_type,
    jit,
    new_output,
)
from softcheck.variants.declaration import KnownDefect, Traffic, variant

_OFFSETS_WRAP = (
    KnownDefect(
        kinds=(FindingKind.OUT_OF_BOUNDS_READ, FindingKind.OUT_OF_BOUNDS_WRITE, FindingKind.CRASH),
        cases=("probe/addresses/*",),
        reason="offsets are computed in 32 bits and wrap beyond 2^31 elements",
    ),
)


@jit
def _one_block_kernel(
    output: tl.tensor,
    x: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    columns: tl.tensor,
    BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr,
) -> None:
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    # 32-bit offsets, as in the source: they wrap where a row begins 2^31 elements or more into the storage.
    logits = tl.load(x + row * row_stride + column * column_stride, mask=inside, other=-float("inf")).to(COMPUTE)
    exponentials = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(output + row * columns + column, exponentials / tl.sum(exponentials, axis=0), mask=inside)


@variant(
    dtypes=ALL_DTYPES,
    max_columns=MAX_BLOCK,
    batch_invariant=True,
    description="one program per row, block of the next power of two, 4 to 16 warps by width",
    provenance="tutorial on fused softmax, first version",
    arithmetic=Arithmetic(),
    traffic=Traffic(reads=1, writes=1),
    known_defects=_OFFSETS_WRAP,
)
def one_block(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    output = new_output(x)
    if output.numel():
        rows, columns = x.shape
        block, warps = block_and_warps(columns)
        _one_block_kernel[(rows,)](output, x, *x.stride(), columns, block, compute_type(x), num_warps=warps)
    return output


@variant(
    dtypes=ALL_DTYPES,
    max_columns=MAX_BLOCK_OF_FOUR_WARPS,
    batch_invariant=True,
    description="one program per row, block of the next power of two, Triton's default warps; moves CPU input to the GPU",
    provenance="blog post on Triton softmax",
    arithmetic=Arithmetic(),
    traffic=Traffic(reads=1, writes=1),
    known_defects=_OFFSETS_WRAP,
)
def one_block_default_warps(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns], on the device of ``x``."""
    on_device = x.cuda() if x.device.type == "cpu" and torch.cuda.is_available() else x
    output = new_output(on_device)
    if output.numel():
        rows, columns = on_device.shape
        block = triton.next_power_of_2(columns)
        _one_block_kernel[(rows,)](output, on_device, *on_device.stride(), columns, block, compute_type(x))
    return output.to(x.device)
