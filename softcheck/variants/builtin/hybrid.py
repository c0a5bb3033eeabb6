"""Kernels specialised on the shape: one pass where the row fits a block, three tiled passes where it does not."""

import torch
import triton
import triton.language as tl

from softcheck.contract import FindingKind
from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.builtin._common import ALL_DTYPES, MAX_BLOCK_OF_FOUR_WARPS, compute_type, jit, new_output
from softcheck.variants.builtin._tiled import softmax_row_in_tiles, tiled_kernel
from softcheck.variants.declaration import KnownDefect, Traffic, variant

_SMALLEST_BLOCK = 64
_NO_CAP = 2**20
"""Triton's largest tensor, in elements."""
_TILE = 1024
"""Small enough that everyday widths take several tiles, large enough for eight elements in each of 128 threads."""

_PACKED_ROWS_ASSUMED = "rows are read as if packed one after the other; row and column strides are ignored"
_STRIDES_IGNORED = (
    KnownDefect(
        # A row that is expanded (stride 0) owns fewer elements than the kernel reads.
        kinds=(FindingKind.WRONG_LAYOUT, FindingKind.OUT_OF_BOUNDS_READ, FindingKind.CRASH),
        reason=_PACKED_ROWS_ASSUMED,
        cases=(
            "layout/*",
            "generated/*",
            "regression/*",
            "probe/meetings/*layout=*",
            "probe/guard_bands/gaps/*",
            "probe/shapes/expanded-*",
        ),
    ),
    KnownDefect(
        kinds=(FindingKind.CRASH,),
        backends=("cuda",),
        cases=("probe/histories/*",),
        always=False,
        reason=_PACKED_ROWS_ASSUMED,
    ),
)


@jit
def _hybrid_kernel(
    output: tl.tensor,
    x: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    if row < ROWS:
        if COLUMNS <= BLOCK:
            column = tl.arange(0, BLOCK)
            inside = column < COLUMNS
            logits = tl.load(x + row * COLUMNS + column, mask=inside, other=-float("inf")).to(COMPUTE)
            exponentials = tl.exp(logits - tl.max(logits, axis=0))
            tl.store(output + row * COLUMNS + column, exponentials / tl.sum(exponentials, axis=0), mask=inside)
        else:
            softmax_row_in_tiles(output + row * COLUMNS, x + row * COLUMNS, 1, COLUMNS, BLOCK, COMPUTE, COMPUTE)


def _block(columns: int, largest: int) -> int:
    block: int = triton.next_power_of_2(columns)
    return min(max(block, _SMALLEST_BLOCK), largest)


def _launch_hybrid(x: torch.Tensor, largest_block: int) -> torch.Tensor:
    output = new_output(x)
    if output.numel():
        rows, columns = x.shape
        _hybrid_kernel[(rows,)](output, x, rows, columns, _block(columns, largest_block), compute_type(x))
    return output


@variant(
    dtypes=ALL_DTYPES,
    max_columns=MAX_BLOCK_OF_FOUR_WARPS,
    batch_invariant=True,
    description="shape as compile-time constants, whole row in one block of at least 64; packed rows assumed",
    provenance="blog post on a hybrid one-pass and tiled softmax",
    arithmetic=Arithmetic(),
    traffic=Traffic(reads=1, writes=1),
    known_defects=_STRIDES_IGNORED,
)
def hybrid(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns], read as packed rows."""
    return _launch_hybrid(x, _NO_CAP)


@variant(
    dtypes=ALL_DTYPES,
    batch_invariant=True,
    description="the hybrid kernel with blocks of at most 1024, so that wide rows take its three tiled passes",
    provenance="blog post on a hybrid one-pass and tiled softmax",
    arithmetic=Arithmetic(),
    traffic=Traffic(reads=3, writes=1),
    known_defects=_STRIDES_IGNORED,
)
def hybrid_tiled(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns], read as packed rows."""
    return _launch_hybrid(x, _TILE)


@variant(
    dtypes=ALL_DTYPES,
    batch_invariant=True,
    description="three passes in tiles of up to 1024, exponentials summed in float64",
    provenance="blog post on a hybrid one-pass and tiled softmax, note on precision",
    traffic=Traffic(reads=3, writes=1),
    arithmetic=Arithmetic(accumulation="float64"),
)
def tiled_float64_sum(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    output = new_output(x)
    if output.numel():
        rows, columns = x.shape
        tiled_kernel[(rows,)](output, x, *x.stride(), columns, _block(columns, _TILE), compute_type(x), tl.float64)
    return output
