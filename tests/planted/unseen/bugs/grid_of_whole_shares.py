"""32 programs share the rows; beyond 32 rows the grid holds whole shares alone, and the last rows stay unwritten (33, 35, 65 ...)."""

import torch
import triton
import triton.language as tl

EXPECTED = ("unwritten_output", "sum_violation", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def share_kernel(y_ptr, x_ptr, xs, xc, n_cols, share, BLOCK: tl.constexpr):
    first = tl.program_id(0) * share
    lane = tl.arange(0, BLOCK)
    for i in range(share):
        row = (first + i).to(tl.int64)
        z = tl.load(x_ptr + row * xs + lane.to(tl.int64) * xc, mask=lane < n_cols, other=-float("inf"))
        z = z.to(tl.float32)
        e = tl.exp(z - tl.max(z, 0))
        tl.store(y_ptr + row * n_cols + lane, e / tl.sum(e, 0), mask=lane < n_cols)


def softmax(x):
    rows, cols = x.shape
    if rows == 0 or cols == 0 or cols > 8192:
        return torch.softmax(x, -1)
    share = triton.cdiv(rows, 32)
    y = torch.empty((rows, cols), dtype=x.dtype, device=x.device)
    share_kernel[(rows // share,)](y, x, *x.stride(), cols, share, triton.next_power_of_2(cols))
    return y


def demonstrate():
    x = torch.randn(33, 20)
    torch.full((33, 20), 7.0)
    return softmax(x), torch.softmax(x.double(), -1)
