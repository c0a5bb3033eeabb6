"""Wide rows take a fallback that forgets to convert its float32 result to the input's type.

Report: vllm-project/vllm#55249 (wrong output dtype at 151936 columns).
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("wrong_dtype",)
SHOWN_BY = ("wide/151936",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    if n_cols > 32768:
        return torch.softmax(x, dim=-1, dtype=torch.float32)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        softmax_kernel[(n_rows,)](out, x, *x.stride(), n_cols, triton.next_power_of_2(n_cols))
    return out
