"""A row in which one logit alone is above -inf is answered as one-hot without a sum; NaN and the rest of the row are not above -inf either.

Wrong on: NaN in a row that is masked up to one column, as the first query of causal scores, or with two columns; and +inf as the lone logit. Others are right."""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _rows(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    peak = tl.full([], -float("inf"), tl.float32)
    seen = tl.zeros([], tl.int32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(v, 0))
        seen += tl.sum((v > -float("inf")).to(tl.int32), 0)
    if seen == 1:
        for at in range(0, n, WIDTH):
            c = at + lane
            v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
            tl.store(y + r * n + c, (v > -float("inf")).to(tl.float32), mask=c < n)
    else:
        mass = tl.zeros([WIDTH], tl.float32)
        for at in range(0, n, WIDTH):
            c = at + lane
            mass += tl.exp(tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32) - peak)
        whole = tl.sum(mass, 0)
        for at in range(0, n, WIDTH):
            c = at + lane
            v = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
            tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        _rows[(rows,)](y, x, *x.stride(), n, min(1024, triton.next_power_of_2(n)))
    return y


def demonstrate():
    x = torch.full((2, 9), -float("inf"))
    x[:, 0] = 1.0
    x[0, 3] = float("nan")
    return softmax(x), torch.softmax(x.double(), -1)
