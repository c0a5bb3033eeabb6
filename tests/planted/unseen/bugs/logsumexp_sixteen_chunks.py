"""Long rows are reduced in chunks of 1024 columns whose maxima and sums are merged in one block of 16: chunks beyond the sixteenth are dropped.

Wrong on: rows of more than 16384 columns; right up to there, and near enough at 16400 for randn.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _chunk_kernel(maxima, totals, x, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = chunk * BLOCK + tl.arange(0, BLOCK)
    logits = tl.load(
        x + row * row_stride + column.to(tl.int64) * column_stride, mask=column < columns, other=-float("inf")
    ).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    shift = tl.where(maximum == -float("inf"), 0.0, maximum)
    place = row * tl.num_programs(1) + chunk
    tl.store(maxima + place, maximum)
    tl.store(totals + place, tl.sum(tl.exp(logits - shift), axis=0))


@triton.jit
def _merge_kernel(output, maxima, totals, chunks, CHUNKS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.arange(0, CHUNKS)
    of_chunks = tl.load(maxima + row * chunks + chunk, mask=chunk < chunks, other=-float("inf"))
    maximum = tl.max(of_chunks, axis=0)
    shift = tl.where(maximum == -float("inf"), 0.0, maximum)
    total = tl.sum(
        tl.load(totals + row * chunks + chunk, mask=chunk < chunks, other=0.0) * tl.exp(of_chunks - shift), axis=0
    )
    tl.store(output + row, shift + tl.log(total))


@variant(operation="logsumexp", call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """Log-sum-exp of each row."""
    output = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    if x.numel():
        rows, columns = x.shape
        chunks = triton.cdiv(columns, 1024)
        maxima, totals = torch.empty((2, rows, chunks), dtype=torch.float32, device=x.device)
        _chunk_kernel[(rows, chunks)](maxima, totals, x, *x.stride(), columns, 1024)
        _merge_kernel[(rows,)](output, maxima, totals, chunks, 16)
    return output


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(1, 20000)
    return logsumexp(x), torch.logsumexp(x.double(), -1)
