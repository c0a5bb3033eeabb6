"""Three kernels of a teaching notebook, two of them with its mistakes."""

import torch
import triton
import triton.language as tl

from softcheck.contract import FindingKind
from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.builtin._common import ALL_DTYPES, MAX_BLOCK_OF_FOUR_WARPS, compute_type, jit, new_output
from softcheck.variants.builtin._tiled import tiled_kernel
from softcheck.variants.declaration import KnownDefect, Traffic, variant

_COLUMNS_PER_PROGRAM = 512
_VECTOR = 4


@jit
def _basic_kernel(
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
    # The notebook's mistake, kept: without `other`, lanes beyond the row enter the maximum and the sum.
    logits = tl.load(x + row * row_stride + column.to(tl.int64) * column_stride, mask=inside).to(COMPUTE)
    exponentials = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(output + row * columns + column, exponentials / tl.sum(exponentials, axis=0), mask=inside)


@jit
def _vectorized_kernel(
    output: tl.tensor,
    x: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    columns: tl.tensor,
    BLOCK: tl.constexpr,
    VEC: tl.constexpr,
    COMPUTE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)[:, None] * VEC + tl.arange(0, VEC)[None, :]
    inside = column < columns
    pointers = x + row * row_stride + column.to(tl.int64) * column_stride
    logits = tl.load(pointers, mask=inside, other=-float("inf")).to(COMPUTE)
    exponentials = tl.exp(logits - tl.max(tl.max(logits, axis=1), axis=0))
    total = tl.sum(tl.sum(exponentials, axis=1), axis=0)
    tl.store(output + row * columns + column, exponentials / total, mask=inside)


@variant(
    dtypes=ALL_DTYPES,
    max_columns=MAX_BLOCK_OF_FOUR_WARPS,
    description="one program per row, masked load without a fill value",
    provenance="notebook on Triton softmax, basic kernel",
    arithmetic=Arithmetic(),
    traffic=Traffic(reads=1, writes=1),
    known_defects=(
        KnownDefect(
            kinds=(
                FindingKind.ULP_EXCEEDS_BOUND,
                FindingKind.SUM_VIOLATION,
                FindingKind.NAN_MISMATCH,
                FindingKind.NONDETERMINISTIC,
                FindingKind.ROW_DEPENDENCE,
            ),
            reason="lanes beyond a row whose width is not a power of two hold undefined values, which enter maximum and sum",
        ),
    ),
)
def notebook_basic(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns], right where columns is a power of two."""
    output = new_output(x)
    if output.numel():
        rows, columns = x.shape
        _basic_kernel[(rows,)](output, x, *x.stride(), columns, triton.next_power_of_2(columns), compute_type(x))
    return output


@variant(
    dtypes=ALL_DTYPES,
    description="one program per row over its first 512 columns, four to a vector, no loop",
    provenance="notebook on Triton softmax, vectorized kernel",
    arithmetic=Arithmetic(),
    known_defects=(
        KnownDefect(
            kinds=(
                FindingKind.UNWRITTEN_OUTPUT,
                FindingKind.ULP_EXCEEDS_BOUND,
                FindingKind.NAN_MISMATCH,
                FindingKind.NONDETERMINISTIC,
                FindingKind.ROW_DEPENDENCE,
            ),
            reason="columns from 512 on are neither read nor written; the first 512 are normalised by themselves",
        ),
    ),
)
def notebook_vectorized(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns], right up to 512 columns."""
    output = new_output(x)
    if output.numel():
        rows, columns = x.shape
        block = _COLUMNS_PER_PROGRAM // _VECTOR
        _vectorized_kernel[(rows,)](output, x, *x.stride(), columns, block, _VECTOR, compute_type(x))
    return output


@variant(
    dtypes=ALL_DTYPES,
    batch_invariant=True,
    description="three passes in tiles of 512",
    provenance="notebook on Triton softmax, tiled kernel",
    arithmetic=Arithmetic(),
    traffic=Traffic(reads=3, writes=1),
)
def notebook_tiled(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    output = new_output(x)
    if output.numel():
        rows, columns = x.shape
        compute = compute_type(x)
        tiled_kernel[(rows,)](output, x, *x.stride(), columns, _COLUMNS_PER_PROGRAM, compute, compute)
    return output
