"""2^t is put together from its exponent's bits, with t clamped at -126 first, so what is masked gets 1e-38 and not 0.

Wrong on: bfloat16 and float32 rows with -inf, or with logits more than 88 below the maximum: never 0.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("masked_not_zero", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _kernel(output, x, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    logits = tl.load(x + row * row_stride + c * column_stride, mask=c < columns, other=-float("inf")).to(tl.float32)
    below = logits - tl.max(logits, axis=0)
    t = tl.where(below * _LOG2_E > -126.0, below * _LOG2_E, -126.0)
    whole = tl.floor(t)
    power = ((whole.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)
    e = tl.where(below == below, tl.exp2(t - whole) * power, below)  # noqa: PLR0124 - false of a NaN
    e = tl.where(c < columns, e, 0.0)
    tl.store(output + row * columns + c, e / tl.sum(e, axis=0), mask=c < columns)


def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        _kernel[(rows,)](output, x, *x.stride(), columns, triton.next_power_of_2(columns))
    return output


def demonstrate():
    x = torch.randn(1, 12, generator=torch.Generator().manual_seed(0))
    x[:, 5:] = -float("inf")
    # The masked places alone, scaled so that the difference is plain to see.
    return softmax(x)[:, 5:].double() * 2.0**126, torch.softmax(x.double(), -1)[:, 5:] * 2.0**126
