"""The mask is aligned with the first key, where the last query is promised to see the last key: the same for square matrices alone.

From experience: prefill was tested, and decoding with a cache was not.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "inf_mismatch", "masked_not_zero", "sum_violation")
SHOWN_BY = ("widths/129", "widths/128")
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(out, x, stride_matrix, stride_row, stride_col, queries, keys, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    query = row % queries
    cols = tl.arange(0, BLOCK)
    seen = (cols < keys) & (cols <= query)
    logits = tl.load(
        x + row // queries * stride_matrix + query * stride_row + cols.to(tl.int64) * stride_col,
        mask=seen,
        other=-float("inf"),
    ).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    numerator = tl.exp(logits - maximum)
    tl.store(out + row * keys + cols, numerator / tl.sum(numerator, axis=0), mask=cols < keys)


@softcheck.variant(parameters={"causal": "bottom-right"})
def softmax(scores):
    matrices, queries, keys = scores.shape
    out = torch.empty(scores.shape, dtype=scores.dtype, device=scores.device)
    if out.numel():
        block = triton.next_power_of_2(keys)
        softmax_kernel[(matrices * queries,)](out, scores, *scores.stride(), queries, keys, block)
    return out
