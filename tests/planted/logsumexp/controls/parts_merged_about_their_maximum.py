"""Logarithms of parts of 64 columns, in float32, merged about the largest of them by a second kernel."""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def part_kernel(parts, x, stride_row, stride_col, n_cols, n_parts, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    cols = part * BLOCK + tl.arange(0, BLOCK)
    pointers = x + row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(pointers, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    maximum = tl.max(logits, axis=0)
    shift = tl.where(maximum == -float("inf"), 0.0, maximum)
    tl.store(parts + row * n_parts + part, shift + tl.log(tl.sum(tl.exp(logits - shift), axis=0)))


@triton.jit
def merge_kernel(out, parts, n_parts, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, BLOCK)
    logarithms = tl.load(parts + row * n_parts + part, mask=part < n_parts, other=-float("inf")).to(tl.float32)
    maximum = tl.max(logarithms, axis=0)
    shift = tl.where(maximum == -float("inf"), 0.0, maximum)
    tl.store(out + row, shift + tl.log(tl.sum(tl.exp(logarithms - shift), axis=0)))


@softcheck.variant(operation="logsumexp")
def logsumexp(x):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    if x.numel():
        n_parts = triton.cdiv(n_cols, 64)
        parts = torch.empty(n_rows, n_parts, dtype=torch.float32, device=x.device)
        part_kernel[(n_rows, n_parts)](parts, x, *x.stride(), n_cols, n_parts, 64)
        merge_kernel[(n_rows,)](out, parts, n_parts, triton.next_power_of_2(n_parts))
    return out
