"""Row strides are handed over in vectors of 8, as ``stride // 8``; that columns divide by 8 is asked, that strides do is not.

Wrong on: more than 1024 columns, a multiple of 8, whose gradient or output lies in rows of another stride, as in ``g[:, :2000]`` of 2003; right otherwise.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("wrong_layout", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

WIDE, TILE, VECTOR = 1024, 2048, 8


@triton.jit
def _block(dx, g, y, gs, gc, ys, yc, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    place = at.to(tl.int64)
    a = tl.load(g + row * gs + place * gc, mask=at < n, other=0.0).to(tl.float32)
    b = tl.load(y + row * ys + place * yc, mask=at < n, other=0.0).to(tl.float32)
    tl.store(dx + row * n + at, b * (a - tl.sum(a * b, axis=0)), mask=at < n)


@triton.jit
def _tiles(dx, g, y, gs, gc, ys, yc, n, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    dot = tl.full([], 0.0, tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        place = at.to(tl.int64)
        a = tl.load(g + row * gs + place * gc, mask=at < n, other=0.0).to(tl.float32)
        b = tl.load(y + row * ys + place * yc, mask=at < n, other=0.0).to(tl.float32)
        dot += tl.sum(a * b, axis=0)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        place = at.to(tl.int64)
        a = tl.load(g + row * gs + place * gc, mask=at < n, other=0.0).to(tl.float32)
        b = tl.load(y + row * ys + place * yc, mask=at < n, other=0.0).to(tl.float32)
        tl.store(dx + row * n + at, b * (a - dot), mask=at < n)


@triton.jit
def _vectors(dx, g, y, g_vectors, y_vectors, n_vectors, VECTOR: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    n = n_vectors * VECTOR
    g_row, y_row, dx_row = g + row * g_vectors * VECTOR, y + row * y_vectors * VECTOR, dx + row * n
    dots = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        a = tl.load(g_row + at, mask=at < n, other=0.0).to(tl.float32)
        b = tl.load(y_row + at, mask=at < n, other=0.0).to(tl.float32)
        dots += a * b
    dot = tl.sum(dots, axis=0)
    for start in range(0, n, TILE):
        at = start + tl.arange(0, TILE)
        a = tl.load(g_row + at, mask=at < n, other=0.0).to(tl.float32)
        b = tl.load(y_row + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(dx_row + at, b * (a - dot), mask=at < n)


def _is_aligned(t):
    return t.stride(1) == 1 and t.data_ptr() % 16 == 0 and t.shape[1] % VECTOR == 0


@variant(operation="softmax_backward")
def softmax_backward(grad_output, output):
    """y (g - sum g y) of [rows, columns]. Wide rows are read by vectors: the compiler sees that their strides divide."""
    rows, n = output.shape
    dx = torch.empty(rows, n, dtype=output.dtype, device=output.device)
    if not dx.numel():
        return dx
    if n <= WIDE:
        _block[(rows,)](
            dx, grad_output, output, *grad_output.stride(), *output.stride(), n, BLOCK=triton.next_power_of_2(n)
        )
    elif _is_aligned(grad_output) and _is_aligned(output):
        vectors = grad_output.stride(0) // VECTOR, output.stride(0) // VECTOR
        _vectors[(rows,)](dx, grad_output, output, *vectors, n // VECTOR, VECTOR=VECTOR, TILE=TILE)
    else:
        _tiles[(rows,)](dx, grad_output, output, *grad_output.stride(), *output.stride(), n, TILE=TILE)
    return dx


def demonstrate():
    torch.manual_seed(0)
    grad, y = torch.randn(4, 2003)[:, :2000], torch.softmax(torch.randn(4, 2000), -1)
    g, p = grad.double(), y.double()
    return softmax_backward(grad, y), p * (g - (g * p).sum(-1, keepdim=True))
