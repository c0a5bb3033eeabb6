"""The answer for one column is that column itself, in the input's memory.

From experience: who changes the answer in place changes the input.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("output_reused",)
SHOWN_BY = ("probe/input_untouched",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def kernel(out, x, s0, s1, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * s0 + c.to(tl.int64) * s1, mask=c < columns, other=-float("inf")).to(tl.float32)
    m = tl.max(v, axis=0)
    m = tl.where(m == -float("inf"), 0.0, m)
    tl.store(out + row, m + tl.log(tl.sum(tl.exp(v - m), axis=0)))


@variant(operation="logsumexp", max_columns=65536)
def logsumexp(x):
    rows, columns = x.shape
    if columns == 1:
        return x[:, 0]
    out = torch.full((rows,), -float("inf"), dtype=x.dtype, device=x.device)
    if x.numel():
        kernel[(rows,)](out, x, *x.stride(), columns, triton.next_power_of_2(columns))
    return out
