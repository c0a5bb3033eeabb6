"""Lanes of the merge beyond the number of chunks are loaded with a maximum of 0 instead of -inf.

Wrong on: logits that are all far below 0, such as randn - 200, with a number of chunks of 1024 that is no power of two,
as of 2500 columns: -inf, or too few digits. 1000, 2000 and 4096 columns are right, and so is randn of any width.
"""

import torch
import triton
import triton.language as tl

OPERATION = "logsumexp"
EXPECTED = ("inf_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _chunk(x_ptr, m_ptr, s_ptr, stride_r, stride_c, n_cols, n_chunks, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    cols = chunk.to(tl.int64) * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(x_ptr + row * stride_r + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    m = tl.max(x, 0)
    shift = tl.where(tl.abs(m) == float("inf"), 0.0, m)
    tl.store(m_ptr + row * n_chunks + chunk, m)
    tl.store(s_ptr + row * n_chunks + chunk, tl.sum(tl.exp(x - shift), 0))


@triton.jit
def _merge(m_ptr, s_ptr, out_ptr, n_chunks, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    m = tl.load(m_ptr + row * n_chunks + i, mask=i < n_chunks, other=0.0)
    s = tl.load(s_ptr + row * n_chunks + i, mask=i < n_chunks, other=0.0)
    top = tl.max(m, 0)
    top = tl.where(tl.abs(top) == float("inf"), 0.0, top)
    total = tl.sum(tl.where(s == 0.0, 0.0, s * tl.exp(m - top)), 0)
    tl.store(out_ptr + row, top + tl.log(total))


def logsumexp(x):
    rows, n_cols = x.shape
    out = torch.full((rows,), -float("inf"), device=x.device, dtype=x.dtype)
    if x.numel() == 0:
        return out
    n_chunks = triton.cdiv(n_cols, 1024)
    m = torch.empty((rows, n_chunks), device=x.device, dtype=torch.float32)
    s = torch.empty_like(m)
    _chunk[(rows, n_chunks)](x, m, s, x.stride(0), x.stride(1), n_cols, n_chunks, CHUNK=1024)
    _merge[(rows,)](m, s, out, n_chunks, BLOCK=triton.next_power_of_2(n_chunks))
    return out


def _both(x):
    return logsumexp(x), torch.logsumexp(x.double(), -1)


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(4, 2500) - 200)


def ordinary(dtype):
    for columns in (1, 1000, 2000, 4096):
        yield f"{columns}", _both((torch.randn(4, columns) - 200).to(dtype))
    yield "randn", _both(torch.randn(4, 2500).to(dtype))
