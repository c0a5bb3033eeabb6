"""The last tile of rows is moved back to be full, as is usual for outputs, but the tile's losses are summed, and rows of two tiles count twice.

Wrong on: more than 16 rows, not a multiple of 16, of up to 512 columns. Right for up to 16 rows, whole tiles, and wider rows.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def cross_entropy_kernel(
    sums, x, target, stride_row, stride_col, target_stride, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    first = tl.program_id(0) * ROWS
    if n_rows >= ROWS:  # full tiles need no mask
        first = tl.minimum(first, n_rows - ROWS)
    rows = first.to(tl.int64) + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    real = rows < n_rows
    inside = real[:, None] & (cols < n_cols)[None, :]
    chosen = tl.load(target + rows * target_stride, mask=real, other=0)
    at = x + rows[:, None] * stride_row + cols[None, :] * stride_col
    logits = tl.load(at, mask=inside, other=-float("inf")).to(tl.float32)
    logits = tl.where(real[:, None], logits, 0.0)
    maximum = tl.max(logits, axis=1)
    total = tl.sum(tl.exp(logits - maximum[:, None]), axis=1)
    at_target = tl.sum(tl.where(cols[None, :] == chosen[:, None], logits, 0.0), axis=1)
    losses = tl.where(real, tl.log(total) + (maximum - at_target), 0.0)
    tl.store(sums + tl.program_id(0), tl.sum(losses, axis=0))


@variant(operation="cross_entropy", parameters={"reduction": "sum"})
def cross_entropy(x, target):
    n_rows, n_cols = x.shape
    block = triton.next_power_of_2(n_cols)
    tile = 16 if block <= 512 else 1
    sums = torch.zeros(triton.cdiv(n_rows, tile), dtype=torch.float32, device=x.device)
    if x.numel():
        cross_entropy_kernel[(sums.numel(),)](
            sums, x, target, *x.stride(), target.stride(0), n_rows, n_cols, tile, block
        )
    return sums.sum()


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(20, 11), torch.randint(0, 11, (20,))
    return cross_entropy(x, target), torch.nn.functional.cross_entropy(x.double(), target, reduction="sum")
