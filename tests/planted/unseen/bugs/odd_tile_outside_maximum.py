"""The leftover tile of a loop unrolled by two enters the sum but not the maximum.

Wrong on: 2049 to 3072 columns (an odd number of tiles, three or more) whose last tile lies more than 88 above all others.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_TILE = 1024


@triton.jit
def _kernel(output, x, row_stride, column_stride, columns, pairs_end, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * row_stride
    lane = tl.arange(0, BLOCK).to(tl.int64)
    largest = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, pairs_end, 2 * BLOCK):
        a, b = start + lane, start + BLOCK + lane
        left = tl.load(x + a * column_stride, mask=a < columns, other=-float("inf")).to(tl.float32)
        right = tl.load(x + b * column_stride, mask=b < columns, other=-float("inf")).to(tl.float32)
        largest = tl.maximum(largest, tl.maximum(left, right))
    maximum = tl.max(largest, axis=0)
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        c = start + lane
        sums += tl.exp(tl.load(x + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32) - maximum)
    total = tl.sum(sums, axis=0)
    for start in range(0, columns, BLOCK):
        c = start + lane
        logits = tl.load(x + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
        tl.store(output + row * columns + c, tl.exp(logits - maximum) / total, mask=c < columns)


def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        tiles = triton.cdiv(columns, _TILE)
        # The loop over pairs covers two tiles at a time; a single tile is a pair whose second half is masked.
        pairs_end = columns if tiles <= 2 else tiles // 2 * 2 * _TILE
        _kernel[(rows,)](output, x, *x.stride(), columns, pairs_end, _TILE)
    return output


def demonstrate():
    x = torch.randn(2, 2100, generator=torch.Generator().manual_seed(0))
    x[:, 2090] = 120.0
    return softmax(x), torch.softmax(x.double(), -1)
