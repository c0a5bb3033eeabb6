"""Each 64 rows begin one tile further on and wrap at the end of the row; lanes are counted before they are moved, so that each column is met once."""

import torch
import triton
import triton.language as tl

OPERATION = "log_softmax_backward"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(dx, grad, y, grad_row, grad_column, y_row, y_column, columns, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    tiles = (columns + TILE - 1) // TILE
    # Neighbouring waves do not begin at the same memory channel.
    shift = ((row // 64) % tiles) * TILE
    lane = tl.arange(0, TILE).to(tl.int64)
    grad += row * grad_row
    y += row * y_row
    added = tl.zeros([TILE], tl.float32)
    for first in range(0, columns, TILE):
        column = first + lane + shift
        column = tl.where((shift > 0) & (column >= columns), column - columns, column)
        added += tl.load(grad + column * grad_column, mask=first + lane < columns, other=0.0).to(tl.float32)
    total = tl.sum(added, 0)
    for first in range(0, columns, TILE):
        column = first + lane + shift
        column = tl.where((shift > 0) & (column >= columns), column - columns, column)
        inside = first + lane < columns
        g = tl.load(grad + column * grad_column, mask=inside, other=0.0).to(tl.float32)
        probability = tl.exp(tl.load(y + column * y_column, mask=inside, other=-float("inf")).to(tl.float32))
        tl.store(dx + row * columns + column, g - probability * total, mask=inside)


def log_softmax_backward(grad_output, output):
    """The gradient of a log-softmax's input, g - exp(y) sum g, for a matrix."""
    dx = torch.empty(output.shape, dtype=output.dtype, device=output.device)
    if dx.numel():
        rows, columns = output.shape
        tile = min(1024, triton.next_power_of_2(columns))
        _kernel[(rows,)](dx, grad_output, output, *grad_output.stride(), *output.stride(), columns, tile)
    return dx


def _both(rows, columns, dtype=torch.float32):
    y, g = torch.randn(rows, columns).log_softmax(-1).to(dtype), torch.randn(rows, columns).to(dtype)
    gradient = g.double()
    return log_softmax_backward(g, y), gradient - y.double().exp() * gradient.sum(-1, keepdim=True)


def ordinary(dtype):
    for rows, columns in (
        (16, 1024),
        (70, 1000),
        (70, 2048),
        (8, 5000),
        (72, 1500),
        (140, 2100),
        (1, 1),
        (3, 0),
        (0, 3),
    ):
        yield f"{rows}x{columns}", _both(rows, columns, dtype)
