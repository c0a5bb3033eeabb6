"""Keeps launch settings by shape, strides, dtype, device and alignment: a cache whose key holds everything that they depend on."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")

_settings = {}


@triton.jit
def softmax_kernel(out, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    offsets = row * stride_row + cols.to(tl.int64) * stride_col
    logits = tl.load(x + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


def settings(x):
    key = (tuple(x.shape), x.stride(), x.dtype, x.device, x.data_ptr() % 16)
    if key not in _settings:
        block = triton.next_power_of_2(x.shape[1])
        _settings[key] = (*x.stride(), x.shape[1], block), {"num_warps": 8 if block >= 2048 else 4}
    return _settings[key]


@variant(max_columns=32768)
def softmax(x):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        arguments, options = settings(x)
        softmax_kernel[(x.shape[0],)](out, x, *arguments, **options)
    return out
