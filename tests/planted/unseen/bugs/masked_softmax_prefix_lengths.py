"""A mask that keeps column 0 in all rows is taken for right padding, and becomes each row's number of kept columns.

Wrong on: masks with holes that keep column 0, such as every second column or two documents. Right for right padding,
and for masks that hide column 0 in any row, as random masks mostly do.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "masked_not_zero", "nan_mismatch", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _softmax(
    x_ptr, mask_ptr, out_ptr, stride_r, stride_c, mask_r, mask_c, n_cols, PREFIX: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_r
    out_ptr += row * n_cols
    end = n_cols
    if PREFIX:
        end = tl.load(mask_ptr + row).to(tl.int32)
    m = -float("inf")
    s = 0.0
    for start in range(0, end, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        seen = cols < end
        if not PREFIX:
            seen = seen & (tl.load(mask_ptr + row * mask_r + cols * mask_c, mask=seen, other=0) != 0)
        x = tl.load(x_ptr + cols * stride_c, mask=seen, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(x, 0))
        shift = tl.where(new == -float("inf"), 0.0, new)
        s = s * tl.exp(m - shift) + tl.sum(tl.exp(x - shift), 0)
        m = new
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        seen = cols < end
        if not PREFIX:
            seen = seen & (tl.load(mask_ptr + row * mask_r + cols * mask_c, mask=seen, other=0) != 0)
        x = tl.load(x_ptr + cols * stride_c, mask=seen, other=-float("inf")).to(tl.float32)
        tl.store(out_ptr + cols, tl.exp(x - m) / s, mask=cols < n_cols)


@variant(call="f(x, keep)")
def softmax(x, mask):
    rows, n_cols = x.shape
    out = torch.empty((rows, n_cols), device=x.device, dtype=x.dtype)
    if not out.numel():
        return out
    mask = mask.expand(rows, n_cols)
    if bool(mask[:, 0].all()):
        lengths = mask.sum(1)
        _softmax[(rows,)](x, lengths, out, *x.stride(), 0, 0, n_cols, PREFIX=True, BLOCK=1024)
    else:
        bits = mask.view(torch.uint8)
        _softmax[(rows,)](x, bits, out, *x.stride(), *bits.stride(), n_cols, PREFIX=False, BLOCK=1024)
    return out


def _both(x, keep):
    return softmax(x, keep), torch.softmax(x.double().masked_fill(~keep, -float("inf")), -1)


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(4, 100), (torch.arange(100) % 2 == 0).expand(4, 100))


def ordinary(dtype):
    x = torch.randn(4, 100).to(dtype)
    yield "padding", _both(x, torch.arange(100) < torch.tensor([[20], [100], [1], [50]]))
    keep = torch.rand(4, 100) < 0.7
    keep[2, 0] = False
    yield "random", _both(x, keep)
