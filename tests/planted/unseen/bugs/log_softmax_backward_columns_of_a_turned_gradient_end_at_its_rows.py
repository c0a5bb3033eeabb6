"""A gradient that lies by columns has a kernel of its own, whose first loop, over columns, ends at the number of rows: the sum lacks the columns beyond it.

Wrong on: a gradient whose rows lie beside each other in memory, with more columns than rows, as rounded up to 64; right otherwise.
"""

import torch
import triton
import triton.language as tl

OPERATION = "log_softmax_backward"
EXPECTED = ("wrong_layout", "ulp_exceeds_bound", "sum_violation", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _by_rows(dx, grad, y, g_row, g_column, y_row, y_column, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    sums = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        sums += tl.load(grad + row * g_row + at * g_column, mask=at < n, other=0.0).to(tl.float32)
    total = tl.sum(sums, axis=0)
    for start in range(0, n, TILE):
        at = start + lane
        g = tl.load(grad + row * g_row + at * g_column, mask=at < n, other=0.0).to(tl.float32)
        p = tl.exp(tl.load(y + row * y_row + at * y_column, mask=at < n, other=0.0).to(tl.float32))
        tl.store(dx + row * n + at, g - p * total, mask=at < n)


@triton.jit
def _by_columns(dx, grad, y, g_column, y_row, y_column, m, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, COLUMNS).to(tl.int64)
    total = tl.zeros([ROWS], tl.float32)
    for start in range(0, m, COLUMNS):
        at = (start + lane)[:, None]
        inside = (at < n) & (row < m)[None, :]
        total += tl.sum(tl.load(grad + at * g_column + row[None, :], mask=inside, other=0.0).to(tl.float32), axis=0)
    for start in range(0, n, COLUMNS):
        at = (start + lane)[:, None]
        inside = (at < n) & (row < m)[None, :]
        g = tl.load(grad + at * g_column + row[None, :], mask=inside, other=0.0).to(tl.float32)
        p = tl.exp(tl.load(y + row[None, :] * y_row + at * y_column, mask=inside, other=0.0).to(tl.float32))
        tl.store(dx + row[None, :] * n + at, g - p * total[None, :], mask=inside)


def log_softmax_backward(grad_output, output):
    """The gradient of a log-softmax's input, g - exp(y) sum g, for a matrix; a gradient that was turned is read along its columns."""
    m, n = output.shape
    dx = torch.empty(output.shape, dtype=output.dtype, device=output.device)
    if not dx.numel():
        return dx
    if grad_output.stride(0) == 1 and grad_output.stride(1) > 1:
        _by_columns[(triton.cdiv(m, 64),)](
            dx, grad_output, output, grad_output.stride(1), *output.stride(), m, n, ROWS=64, COLUMNS=64
        )
    else:
        tile = min(2048, triton.next_power_of_2(n))
        _by_rows[(m,)](dx, grad_output, output, *grad_output.stride(), *output.stride(), n, TILE=tile)
    return dx


def demonstrate():
    torch.manual_seed(0)
    y, g = torch.randn(20, 100).log_softmax(-1), torch.randn(100, 20).t()
    wide = g.double()
    return log_softmax_backward(g, y), wide - y.double().exp() * wide.sum(-1, keepdim=True)
