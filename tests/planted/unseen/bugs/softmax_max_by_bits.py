"""The maximum is found by atomics on floats' bits as int32: a row without positive logits keeps the -inf it began with.

Wrong on: rows of negative logits, such as log-probabilities: ``softmax(log_softmax(randn(8, 1000)))`` is NaN.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _maxima(x_ptr, m_ptr, stride_r, stride_c, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_r + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    tl.atomic_max(m_ptr + row, tl.max(x, 0).to(tl.int32, bitcast=True))


@triton.jit
def _sums(x_ptr, m_ptr, s_ptr, stride_r, stride_c, n_cols, parts, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    cols = part.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_r + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    m = tl.load(m_ptr + row).to(tl.float32, bitcast=True)
    tl.store(s_ptr + row * parts + part, tl.sum(tl.exp(x - m), 0))


@triton.jit
def _normalise(
    x_ptr, m_ptr, s_ptr, out_ptr, stride_r, stride_c, n_cols, parts, BLOCK: tl.constexpr, PARTS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_r + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    m = tl.load(m_ptr + row).to(tl.float32, bitcast=True)
    i = tl.arange(0, PARTS)
    s = tl.sum(tl.load(s_ptr + row * parts + i, mask=i < parts, other=0.0), 0)
    tl.store(out_ptr + row * n_cols + cols, tl.exp(x - m) / s, mask=cols < n_cols)


def softmax(x):
    rows, n_cols = x.shape
    out = torch.empty((rows, n_cols), device=x.device, dtype=x.dtype)
    if out.numel() == 0:
        return out
    parts = triton.cdiv(n_cols, 1024)
    m = torch.full((rows,), -float("inf"), device=x.device).view(torch.int32)
    s = torch.empty((rows, parts), device=x.device, dtype=torch.float32)
    _maxima[(rows, parts)](x, m, *x.stride(), n_cols, BLOCK=1024)
    _sums[(rows, parts)](x, m, s, *x.stride(), n_cols, parts, BLOCK=1024)
    _normalise[(rows, parts)](x, m, s, out, *x.stride(), n_cols, parts, BLOCK=1024, PARTS=triton.next_power_of_2(parts))
    return out


def _both(x):
    return softmax(x), torch.softmax(x.double(), -1)


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.log_softmax(torch.randn(8, 1000), -1))


def ordinary(dtype):
    for columns in (60, 1000, 5000):
        yield f"{columns}", _both(torch.randn(4, columns).to(dtype))
