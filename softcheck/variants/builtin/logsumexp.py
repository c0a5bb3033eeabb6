"""Log-sum-exp: torch's own, one block per row, and one pass with a running maximum and sum."""

import torch
import triton.language as tl

from softcheck.contract import FindingKind
from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.builtin._common import ALL_DTYPES, MAX_BLOCK, block_and_warps, compute_type, jit, new_row_output
from softcheck.variants.builtin._online import running_sum, tile_and_warps
from softcheck.variants.declaration import KnownDefect, Traffic, variant


@variant(
    operation="logsumexp",
    dtypes=ALL_DTYPES,
    description="torch.logsumexp over the last dimension",
    provenance="PyTorch",
    known_defects=(
        KnownDefect(
            kinds=(FindingKind.ULP_EXCEEDS_BOUND, FindingKind.INF_MISMATCH),
            dtypes=("float16", "bfloat16"),
            reason="torch takes differences, exponentials, sums and logarithms in tensors of the input's 16 bits",
            always=False,
        ),
        KnownDefect(
            kinds=(FindingKind.WRONG_GRADIENT,),
            cases=("probe/gradients/*",),
            dtypes=("float16", "bfloat16"),
            backends=("cuda",),
            reason="torch takes the exponentials of its backward in tensors of the input's 16 bits",
            always=False,
        ),
    ),
)
def torch_logsumexp(x: torch.Tensor) -> torch.Tensor:
    """Log-sum-exp of each row, shape [rows]."""
    return torch.logsumexp(x, dim=-1)


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
    pointers = x + row * row_stride + column.to(tl.int64) * column_stride
    logits = tl.load(pointers, mask=column < columns, other=-float("inf")).to(COMPUTE)
    maximum = tl.max(logits, axis=0)
    # A row of -inf alone sums to nothing, whose logarithm is -inf, about any finite shift.
    shift = tl.where(maximum == -float("inf"), 0.0, maximum)
    tl.store(output + row, shift + tl.log(tl.sum(tl.exp(logits - shift), axis=0)))


@variant(
    operation="logsumexp",
    dtypes=ALL_DTYPES,
    max_columns=MAX_BLOCK,
    batch_invariant=True,
    description="one program per row, block of the next power of two; float32 answers",
    provenance="common practice",
    traffic=Traffic(reads=1, writes=0, row_writes=1),
    arithmetic=Arithmetic(),
)
def logsumexp_one_block(x: torch.Tensor) -> torch.Tensor:
    """Log-sum-exp of each row, shape [rows]."""
    output = new_row_output(x)
    if x.numel():
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
    tl.store(output + row, maximum + tl.log(total))


@variant(
    operation="logsumexp",
    dtypes=ALL_DTYPES,
    batch_invariant=True,
    description="one pass in tiles of up to 4096, one running maximum and sum per row; float32 answers",
    provenance="Milakov and Gimelshein, Online normalizer calculation for softmax, 2018",
    traffic=Traffic(reads=1, writes=0, row_writes=1),
    arithmetic=Arithmetic(rescales=True),
)
def logsumexp_online(x: torch.Tensor) -> torch.Tensor:
    """Log-sum-exp of each row, shape [rows]."""
    output = new_row_output(x)
    if x.numel():
        rows, columns = x.shape
        block, warps = tile_and_warps(columns)
        _online_kernel[(rows,)](output, x, *x.stride(), columns, block, compute_type(x), num_warps=warps)
    return output
