"""RIGHT: launch plans are kept between calls, by dtype and width, and hold numbers alone, no memory.

Unusual in: the kept state, a grid that strides over rows from the last to the first, and two rows in each step.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32", "float64")
BACKENDS = ("interpreter", "cuda")

_plans = {}


@triton.jit
def _kernel(output, x, row_stride, column_stride, rows, columns, BLOCK: tl.constexpr, COMPUTE: tl.constexpr):
    c = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    for step in range(tl.program_id(0), (rows + 1) // 2, tl.num_programs(0)):
        row = (rows - 1 - 2 * step - tl.arange(0, 2)).to(tl.int64)[:, None]
        inside = (row >= 0) & (c < columns)
        logits = tl.load(x + row * row_stride + c * column_stride, mask=inside, other=-float("inf")).to(COMPUTE)
        e = tl.exp(logits - tl.max(logits, axis=1)[:, None])
        tl.store(output + row * columns + c, e / tl.sum(e, axis=1)[:, None], mask=inside)


def _plan(x):
    key = x.dtype, x.shape[1]
    if key not in _plans:
        block = triton.next_power_of_2(x.shape[1])
        _plans[key] = block, tl.float64 if x.dtype == torch.float64 else tl.float32, 16 if block >= 4096 else 4
    return _plans[key]


@softcheck.variant(dtypes=["float16", "bfloat16", "float32", "float64"], max_columns=16384)
def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        block, compute, warps = _plan(x)
        _kernel[(min((rows + 1) // 2, 128),)](output, x, *x.stride(), rows, columns, block, compute, num_warps=warps)
    return output
