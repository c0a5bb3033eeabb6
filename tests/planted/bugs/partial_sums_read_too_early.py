"""One launch both writes the tiles' partial sums and reads all of a row's, with nothing that orders its programs.

Reports: JustVugg/colibri#1098, ggml-org/llama.cpp#26385 (missing barriers).
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nondeterministic", "unwritten_output", "sum_violation", "nan_mismatch")
SHOWN_BY = ("widths/1025", "widths/4097")
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def softmax_kernel(
    out, sums, maxima, x, stride_row, stride_col, n_cols, n_parts, PARTS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    maximum = tl.load(maxima + row)
    cols = part * BLOCK + tl.arange(0, BLOCK)
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    tile = tl.load(x + offsets, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(tile - maximum)
    tl.store(sums + row * n_parts + part, tl.sum(numerator, axis=0))
    parts = tl.arange(0, PARTS)
    total = tl.sum(tl.load(sums + row * n_parts + parts, mask=parts < n_parts, other=0.0), axis=0)
    tl.store(out + row * n_cols + cols, numerator / total, mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        maxima = x.amax(dim=-1).float()
        parts = triton.cdiv(n_cols, 1024)
        sums = torch.zeros((n_rows, parts), dtype=torch.float32, device=x.device)
        arguments = (n_cols, parts, triton.next_power_of_2(parts), 1024)
        softmax_kernel[(n_rows, parts)](out, sums, maxima, x, *x.stride(), *arguments)
    return out
