"""Log-softmax: torch's own, one block per row, and two passes with a running maximum and sum."""

import torch
import triton.language as tl

from softcheck.contract import FindingKind
from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.builtin._common import ALL_DTYPES, MAX_BLOCK, block_and_warps, compute_type, jit, new_output
from softcheck.variants.builtin._online import running_sum, tile_and_warps
from softcheck.variants.declaration import KnownDefect, Traffic, variant


@variant(
    operation="log_softmax",
    dtypes=ALL_DTYPES,
    dimensions=4,
    description="torch.log_softmax over the last dimension",
    provenance="PyTorch",
    known_defects=(
        KnownDefect(
            kinds=(FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION, FindingKind.INF_MISMATCH),
            dtypes=("float16", "bfloat16"),
            backends=("interpreter",),
            reason="on a CPU torch keeps each row's maximum and sum in the input's 16 bits (pytorch/pytorch#158310)",
        ),
    ),
)
def torch_log_softmax(x: torch.Tensor) -> torch.Tensor:
    """Log-softmax of each row, shape [rows, columns]."""
    return torch.log_softmax(x, dim=-1)


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
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    pointers = x + row * row_stride + column.to(tl.int64) * column_stride
    logits = tl.load(pointers, mask=inside, other=-float("inf")).to(COMPUTE)
    below = logits - tl.max(logits, axis=0)
    logarithm = tl.log(tl.sum(tl.exp(below), axis=0))
    tl.store(output + row * columns + column, below - logarithm, mask=inside)


@variant(
    operation="log_softmax",
    dtypes=ALL_DTYPES,
    max_columns=MAX_BLOCK,
    batch_invariant=True,
    description="one program per row, block of the next power of two; maximum, then the logarithm of the sum subtracted",
    provenance="common practice",
    traffic=Traffic(reads=1, writes=1),
    arithmetic=Arithmetic(),
)
def log_softmax_one_block(x: torch.Tensor) -> torch.Tensor:
    """Log-softmax of each row, shape [rows, columns]."""
    output = new_output(x)
    if output.numel():
        rows, columns = x.shape
        block, warps = block_and_warps(columns)
        _one_block_kernel[(rows,)](output, x, *x.stride(), columns, block, compute_type(x), num_warps=warps)
    return output


@jit
def _online_kernel(
    output: tl.tensor,
    x: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    columns: tl.tensor,
    BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    maximum, total = running_sum(x + row * row_stride, column_stride, columns, BLOCK, COMPUTE)
    lane = tl.arange(0, BLOCK)

    logarithm = tl.log(total)
    for start in range(0, columns, BLOCK):
        column = start + lane
        pointers = x + row * row_stride + column.to(tl.int64) * column_stride
        logits = tl.load(pointers, mask=column < columns, other=-float("inf")).to(COMPUTE)
        tl.store(output + row * columns + column, logits - maximum - logarithm, mask=column < columns)


@variant(
    operation="log_softmax",
    dtypes=ALL_DTYPES,
    batch_invariant=True,
    description="two passes in tiles of up to 4096, one running maximum and sum per row",
    provenance="Milakov and Gimelshein, Online normalizer calculation for softmax, 2018",
    traffic=Traffic(reads=2, writes=1),
    arithmetic=Arithmetic(rescales=True),
)
def log_softmax_online(x: torch.Tensor) -> torch.Tensor:
    """Log-softmax of each row, shape [rows, columns]."""
    output = new_output(x)
    if output.numel():
        rows, columns = x.shape
        block, warps = tile_and_warps(columns)
        _online_kernel[(rows,)](output, x, *x.stride(), columns, block, compute_type(x), num_warps=warps)
    return output
