"""Row sums are added into a kept workspace that the second kernel clears, so a call that raises in between spoils the next one.

Wrong on: softmax(x) after a call whose out= had a wrong shape and was refused; right ever after.
"""

from contextlib import suppress

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_TILE = 256
_workspaces = {}


@triton.jit
def _sum_kernel(sums, maxima, x, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    logits = tl.load(x + row * row_stride + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
    tl.atomic_add(sums + row, tl.sum(tl.exp(logits - tl.load(maxima + row)), axis=0))


@triton.jit
def _divide_kernel(output, sums, maxima, x, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total, maximum = tl.load(sums + row), tl.load(maxima + row)
    for start in range(0, columns, BLOCK):
        c = (start + tl.arange(0, BLOCK)).to(tl.int64)
        logits = tl.load(x + row * row_stride + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
        tl.store(output + row * columns + c, tl.exp(logits - maximum) / total, mask=c < columns)
    # Ready for the next call.
    tl.store(sums + row, 0.0)


@variant(call="f(x, out=out)")
def softmax(x, out=None):
    """Softmax of each row, shape [rows, columns], into ``out`` where it is given."""
    rows, columns = x.shape
    if not x.numel():
        return torch.empty_like(x) if out is None else out
    sums = _workspaces.get((x.device, rows))
    if sums is None:
        sums = _workspaces[x.device, rows] = torch.zeros(rows, dtype=torch.float32, device=x.device)
    maxima = x.amax(-1).float()
    _sum_kernel[(rows, triton.cdiv(columns, _TILE))](sums, maxima, x, *x.stride(), columns, _TILE)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out is not None and out.shape != x.shape:
        raise ValueError(f"out has the shape {tuple(out.shape)}, not {tuple(x.shape)}")
    _divide_kernel[(rows,)](y, sums, maxima, x, *x.stride(), columns, _TILE)
    return y if out is None else out.copy_(y)


def demonstrate():
    x = torch.randn(3, 300, generator=torch.Generator().manual_seed(0))
    with suppress(ValueError):
        softmax(x, out=torch.empty(3, 299))
    return softmax(x), torch.softmax(x.double(), -1)
