"""RIGHT: eight programs for each row, from right to left; pairs of (maximum, sum) in a fresh workspace, merged by a second kernel.

Unusual in: the split, the order, and that a part of nothing but -inf has the sum 0 and no NaN.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_PARTS = 8
_TILE = 512


@triton.jit
def _part_kernel(maxima, sums, x, row_stride, column_stride, columns, tiles, PARTS: tl.constexpr, TILE: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    x += row * row_stride
    maximum = tl.full([], -float("inf"), tl.float32)
    total = tl.zeros([], tl.float32)
    # Tiles part, part + 8, part + 16, ... counted from the right end.
    for tile in range(part, tiles, PARTS):
        c = ((tiles - 1 - tile) * TILE + tl.arange(0, TILE)).to(tl.int64)
        logits = tl.load(x + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
        # A NaN stays a NaN in the sum, whatever the maximum makes of it.
        larger = tl.maximum(maximum, tl.max(logits, axis=0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(logits - shift), axis=0)
        maximum = larger
    tl.store(maxima + row * PARTS + part, maximum)
    tl.store(sums + row * PARTS + part, total)


@triton.jit
def _merge_kernel(
    output, maxima, sums, x, row_stride, column_stride, columns, tiles, PARTS: tl.constexpr, TILE: tl.constexpr
):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    of_parts = tl.load(maxima + row * PARTS + tl.arange(0, PARTS))
    maximum = tl.max(of_parts, axis=0)
    total = tl.sum(tl.load(sums + row * PARTS + tl.arange(0, PARTS)) * tl.exp(of_parts - maximum), axis=0)
    for tile in range(part, tiles, PARTS):
        c = ((tiles - 1 - tile) * TILE + tl.arange(0, TILE)).to(tl.int64)
        logits = tl.load(x + row * row_stride + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
        tl.store(output + row * columns + c, tl.exp(logits - maximum) / total, mask=c < columns)


@softcheck.variant(arithmetic=softcheck.Arithmetic(rescales=True))
def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        tiles = triton.cdiv(columns, _TILE)
        parts = min(_PARTS, triton.next_power_of_2(tiles))
        maxima, sums = torch.empty(2, rows, parts, dtype=torch.float32, device=x.device)
        arguments = (maxima, sums, x, *x.stride(), columns, tiles, parts, _TILE)
        _part_kernel[(rows, parts)](*arguments)
        _merge_kernel[(rows, parts)](output, *arguments)
    return output
