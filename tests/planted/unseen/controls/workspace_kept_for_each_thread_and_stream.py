"""Two kernels with a workspace that is kept, rightly: for each thread, device and stream, never while a graph is captured, and each number is written before it is read."""

import threading

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

kept = threading.local()


@triton.jit
def parts_kernel(maxima, totals, x, stride_row, stride_col, n_cols, n_tiles, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1)
    cols = (tile * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    safe = tl.where(maximum == -float("inf"), 0.0, maximum)
    tl.store(maxima + row * n_tiles + tile, maximum)
    tl.store(totals + row * n_tiles + tile, tl.sum(tl.exp(logits - safe), axis=0))


@triton.jit
def finish_kernel(
    y, maxima, totals, x, stride_row, stride_col, n_cols, n_tiles, TILES: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1)
    tiles = tl.arange(0, TILES)
    of_tiles = tl.load(maxima + row * n_tiles + tiles, mask=tiles < n_tiles, other=-float("inf"))
    sums = tl.load(totals + row * n_tiles + tiles, mask=tiles < n_tiles, other=0.0)
    maximum = tl.max(of_tiles, axis=0)
    safe = tl.where(maximum == -float("inf"), 0.0, maximum)
    total = tl.sum(sums * tl.exp(of_tiles - safe), axis=0)
    cols = (tile * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    tl.store(y + row * n_cols + cols, tl.exp(logits - safe) / total, mask=cols < n_cols)


def workspace(x, numbers):
    if x.is_cuda and torch.cuda.is_current_stream_capturing():
        return torch.empty(numbers, dtype=torch.float32, device=x.device)
    stream = torch.cuda.current_stream(x.device).cuda_stream if x.is_cuda else 0
    memory = kept.__dict__.get((x.device, stream))
    if memory is None or memory.numel() < numbers:
        memory = torch.empty(2 * numbers, dtype=torch.float32, device=x.device)
        kept.__dict__[x.device, stream] = memory
    return memory


@variant()
def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if x.numel():
        block = 128 if n_cols <= 2048 else 2048
        n_tiles = triton.cdiv(n_cols, block)
        memory = workspace(x, 2 * n_rows * n_tiles)
        maxima, totals = memory[: n_rows * n_tiles], memory[n_rows * n_tiles :]
        parts_kernel[(n_rows, n_tiles)](maxima, totals, x, *x.stride(), n_cols, n_tiles, block)
        tiles = triton.next_power_of_2(n_tiles)
        finish_kernel[(n_rows, n_tiles)](y, maxima, totals, x, *x.stride(), n_cols, n_tiles, tiles, block)
    return y
