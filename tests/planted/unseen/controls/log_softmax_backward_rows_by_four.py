"""Right: four rows to a program in tiles of 64 columns, any strides of both operands; sums of each lane until the end."""

import torch
import triton
import triton.language as tl

from softcheck import variant
from softcheck.operations.arithmetic import Arithmetic

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(dx, grad, y, grad_row, grad_column, y_row, y_column, rows, columns, ROWS: tl.constexpr, TILE: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    lane = tl.arange(0, TILE).to(tl.int64)[None, :]
    sums = tl.zeros((ROWS, TILE), tl.float32)
    for start in range(0, columns, TILE):
        column = start + lane
        inside = (row < rows) & (column < columns)
        sums += tl.load(grad + row * grad_row + column * grad_column, mask=inside, other=0.0).to(tl.float32)
    total = tl.sum(sums, axis=1)[:, None]
    for start in range(0, columns, TILE):
        column = start + lane
        inside = (row < rows) & (column < columns)
        g = tl.load(grad + row * grad_row + column * grad_column, mask=inside, other=0.0).to(tl.float32)
        logarithm = tl.load(y + row * y_row + column * y_column, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx + row * columns + column, g - tl.exp(logarithm) * total, mask=inside)


@variant(
    operation="log_softmax_backward",
    call="f(grad, y)",
    arithmetic=Arithmetic(),
    dtypes=("float16", "bfloat16", "float32"),
)
def log_softmax_backward(grad, y):
    """The gradient of each row's logits for a log-softmax ``y`` and its gradient."""
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if dx.numel():
        rows, columns = y.shape
        _kernel[(triton.cdiv(rows, 4),)](dx, grad, y, *grad.stride(), *y.stride(), rows, columns, 4, 64)
    return dx
