"""The launch plan, with the type to compute in, is kept by width alone, so float64 after float32 is computed in float32.

Wrong on: a float64 input after a float16, bfloat16 or float32 input of the same number of columns; right in a fresh process.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nondeterministic", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float64",)
BACKENDS = ("interpreter", "cuda")

_plans = {}


@triton.jit
def _kernel(output, x, row_stride, column_stride, columns, BLOCK: tl.constexpr, COMPUTE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    logits = tl.load(x + row * row_stride + c * column_stride, mask=c < columns, other=-float("inf")).to(COMPUTE)
    e = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(output + row * columns + c, e / tl.sum(e, axis=0), mask=c < columns)


def _plan(x):
    columns = x.shape[1]
    if columns not in _plans:
        _plans[columns] = triton.next_power_of_2(columns), tl.float64 if x.dtype == torch.float64 else tl.float32
    return _plans[columns]


@variant(dtypes=["float16", "bfloat16", "float32", "float64"])
def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        _kernel[(x.shape[0],)](output, x, *x.stride(), x.shape[1], *_plan(x))
    return output


def demonstrate():
    x = torch.randn(2, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    softmax(x.float())
    return softmax(x), torch.softmax(x, -1)
