"""The target's logit is found on the way by comparing columns in tiles of 8 rows by 64 columns; targets are of 32 bits.

Targets that are no columns give NaN, and ignored ones 0.
"""

import torch
import triton
import triton.language as tl

OPERATION = "cross_entropy"
DECLARE = "invalid_target=nan"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _loss(
    x_ptr, t_ptr, out_ptr, stride_r, stride_c, rows, n_cols, ignore_index, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    target = tl.load(t_ptr + row, mask=row < rows, other=0)
    m = tl.full((ROWS,), -float("inf"), tl.float32)
    s = tl.zeros((ROWS,), tl.float32)
    of_target = tl.zeros((ROWS,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        inside = (row[:, None] < rows) & (cols[None, :] < n_cols)
        x = tl.load(x_ptr + row[:, None] * stride_r + cols[None, :] * stride_c, mask=inside, other=-float("inf")).to(
            tl.float32
        )
        new = tl.maximum(m, tl.max(x, 1))
        shift = tl.where(new == -float("inf"), 0.0, new)
        s = s * tl.exp(m - shift) + tl.sum(tl.exp(x - shift[:, None]), 1)
        m = new
        # One column at most is not 0.
        of_target += tl.sum(tl.where(cols[None, :] == target[:, None], x, 0.0), 1)
    loss = tl.log(s) + (m - of_target)
    loss = tl.where((target < 0) | (target >= n_cols), float("nan"), loss)
    tl.store(out_ptr + row, tl.where(target == ignore_index, 0.0, loss), mask=row < rows)


def cross_entropy(logits, target, ignore_index=-100):
    rows, n_cols = logits.shape
    out = torch.empty((rows,), device=logits.device, dtype=logits.dtype)
    if rows:
        narrow = target.clamp(-(2**31), 2**31 - 1).to(torch.int32)
        _loss[(triton.cdiv(rows, 8),)](
            logits, narrow, out, *logits.stride(), rows, n_cols, ignore_index, ROWS=8, BLOCK=64
        )
    return out


def _both(x, target, ignore_index=-100):
    exact = torch.nn.functional.cross_entropy(x.double(), target, ignore_index=ignore_index, reduction="none")
    return cross_entropy(x, target, ignore_index), exact


def ordinary(dtype):
    for rows, columns in ((1, 1), (3, 2), (8, 64), (17, 65), (4, 9000), (40, 7)):
        target = torch.randint(0, columns, (rows,))
        target[0] = columns - 1
        yield f"{rows}x{columns}", _both(torch.randn(rows, columns).to(dtype), target)
        yield f"{rows}x{columns} ignored", _both(torch.randn(rows, columns).to(dtype), target, columns - 1)
    yield "transposed", _both((torch.randn(30, 9) * 10).to(dtype).mT, torch.randint(0, 30, (18,))[::2])
    x, target = torch.randn(6, 100).to(dtype), torch.randint(0, 90, (6,))
    x[0, 95], x[1, 99], x[2, 90:], x[3, 3], x[4] = (
        float("nan"),
        float("inf"),
        -float("inf"),
        -float("inf"),
        float("nan"),
    )
    target[3], target[4] = 3, -100
    yield "special", _both(x, target)
    yield "no columns", (cross_entropy(x[:2], torch.tensor([-1, 100])), torch.full((2,), float("nan")))
