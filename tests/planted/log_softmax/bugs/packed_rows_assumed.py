"""Adjacent columns are taken for a contiguous matrix: a slice of columns is read with its width as row stride.

Reports: ROCm/rocm-libraries#11387, unslothai/unsloth#10713, Torch-FL#172.
"""

import torch
import triton
import triton.language as tl

import softcheck

EXPECTED = ("wrong_layout",)
SHOWN_BY = ("layout/row-step-129",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def log_softmax_kernel(out, x, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * n_cols
    maximum = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(maximum, tl.max(tile, axis=0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(tile - shift), axis=0)
        maximum = larger
    logarithm = tl.log(total)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(x + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out + row * n_cols + cols, tile - maximum - logarithm, mask=cols < n_cols)


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    n_rows, n_cols = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        packed = x if x.stride(1) == 1 else x.contiguous()
        log_softmax_kernel[(n_rows,)](out, packed, n_cols, 1024)
    return out
