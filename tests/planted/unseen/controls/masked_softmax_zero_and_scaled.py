"""Hidden logits are not read, tiles that are hidden throughout do no arithmetic, and rows that see nothing are 0.

The mask is True where a column is hidden, and the logits are scaled by 0.125.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _softmax(x_ptr, mask_ptr, out_ptr, stride_r, stride_c, mask_r, mask_c, n_cols, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_r
    mask_ptr += row * mask_r
    out_ptr += row * n_cols
    m = -float("inf")
    s = 0.0
    any_seen = 0
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        seen = tl.load(mask_ptr + cols * mask_c, mask=cols < n_cols, other=1) == 0
        count = tl.sum(seen.to(tl.int32), 0)
        if count > 0:
            any_seen += count
            x = tl.load(x_ptr + cols * stride_c, mask=seen, other=-float("inf")).to(tl.float32) * scale
            new = tl.maximum(m, tl.max(x, 0))
            shift = tl.where(new == -float("inf"), 0.0, new)
            s = s * tl.exp(m - shift) + tl.sum(tl.exp(x - shift), 0)
            m = new
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        seen = tl.load(mask_ptr + cols * mask_c, mask=cols < n_cols, other=1) == 0
        x = tl.load(x_ptr + cols * stride_c, mask=seen, other=-float("inf")).to(tl.float32) * scale
        y = tl.exp(x - m) / s
        # A row of -inf alone sees nothing either.
        y = tl.where((m == -float("inf")) & (s == 0.0), 0.0, y)
        tl.store(out_ptr + cols, y, mask=cols < n_cols)


@variant(parameters={"scale": 0.125}, call="f(x, mask, scale)", fully_masked="zero")
def softmax(x, mask, scale=0.125):
    rows, n_cols = x.shape
    out = torch.empty((rows, n_cols), device=x.device, dtype=x.dtype)
    if out.numel():
        bits = mask.expand(rows, n_cols).view(torch.uint8)
        _softmax[(rows,)](x, bits, out, *x.stride(), *bits.stride(), n_cols, scale, BLOCK=512)
    return out


def _both(x, mask, scale=0.125):
    wide = x.double().masked_fill(mask, -float("inf")) * scale
    dead = (wide == -float("inf")).all(-1, keepdim=True)
    return softmax(x, mask, scale), torch.softmax(wide, -1).masked_fill(dead, 0.0)


def ordinary(dtype):
    for rows, columns in ((4, 100), (1, 1), (2, 9000), (500, 3), (5, 513)):
        x, mask = (torch.randn(rows, columns) * 20).to(dtype), torch.rand(rows, columns) < 0.5
        yield f"{rows}x{columns}", _both(x, mask)
        yield f"{rows}x{columns} one mask", _both(x, mask[:1])
        yield f"{rows}x{columns} all seen", _both(x, torch.zeros_like(mask))
    x, mask = torch.randn(6, 2000).to(dtype), torch.zeros(6, 2000, dtype=torch.bool)
    x[0], x[1, 4], x[2, 5], x[3, :1400] = -float("inf"), float("nan"), float("inf"), -float("inf")
    mask[1:, :3], mask[4], mask[5, 30:] = True, True, True
    x[4], x[5, 30:] = float("nan"), float("nan")
    yield "special", _both(x, mask)
    yield "transposed", _both(torch.randn(60, 7).to(dtype).mT, (torch.rand(60, 7) < 0.5).mT)
