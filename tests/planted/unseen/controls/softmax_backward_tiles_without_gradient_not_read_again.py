"""Right: a tile of 128 columns whose gradients are all 0 isn't read again on the second pass, where it gets the output times minus the mean; which tiles those are is kept by a workspace of the call's own."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _products(means, has, g, y, g_row_step, g_column_step, row_step, column_step, n, tiles, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    total = tl.zeros([WIDTH], tl.float32)
    for number in range(tiles):
        c = number * WIDTH + lane
        of_y = tl.load(g + r * g_row_step + c * g_column_step, mask=c < n, other=0.0).to(tl.float32)
        total += of_y * tl.load(y + r * row_step + c * column_step, mask=c < n, other=0.0).to(tl.float32)
        # NaN is no 0 either.
        tl.store(has + r * tiles + number, tl.max((of_y != 0.0).to(tl.int32), 0).to(tl.int8))
    tl.store(means + r, tl.sum(total, 0))


@triton.jit
def _gradient(dx, means, has, g, y, g_row_step, g_column_step, row_step, column_step, n, tiles, WIDTH: tl.constexpr):
    number = tl.program_id(0).to(tl.int64)
    r = number // tiles
    c = (number % tiles) * WIDTH + tl.arange(0, WIDTH)
    read = (c < n) & (tl.load(has + number) != 0)
    of_y = tl.load(g + r * g_row_step + c * g_column_step, mask=read, other=0.0).to(tl.float32)
    p = tl.load(y + r * row_step + c * column_step, mask=c < n, other=0.0).to(tl.float32)
    tl.store(dx + r * n + c, p * (of_y - tl.load(means + r)), mask=c < n)


@variant(operation="softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    """The gradient of each row's logits for a softmax ``y`` and its gradient."""
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows, n = y.shape
        width = min(128, triton.next_power_of_2(n))
        tiles = triton.cdiv(n, width)
        means = torch.empty(rows, dtype=torch.float32, device=y.device)
        has = torch.empty(rows * tiles, dtype=torch.int8, device=y.device)
        steps = (*grad.stride(), *y.stride(), n, tiles, width)
        _products[(rows,)](means, has, grad, y, *steps)
        _gradient[(rows * tiles,)](dx, means, has, grad, y, *steps)
    return dx
