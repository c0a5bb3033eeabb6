"""Targets are narrowed to int16 for up to 65536 columns: from 32768 on they become negative, and are taken for padding.

Wrong on: logits [8, 50257], GPT-2's vocabulary, with targets of 32768 and more: a loss of 0. Right up to 32768 columns
and above 65536.
"""

import torch
import triton
import triton.language as tl

OPERATION = "cross_entropy"
EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _loss(x_ptr, t_ptr, out_ptr, stride_r, stride_c, n_cols, ignore_index, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_r
    m = -float("inf")
    s = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols.to(tl.int64) * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(x, 0))
        shift = tl.where(new == -float("inf"), 0.0, new)
        s = s * tl.exp(m - shift) + tl.sum(tl.exp(x - shift), 0)
        m = new
    target = tl.load(t_ptr + row).to(tl.int64)
    # Negative targets are padding too.
    counts = (target != ignore_index) & (target >= 0) & (target < n_cols)
    of_target = tl.load(x_ptr + target * stride_c, mask=counts, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.where(counts, tl.log(s) + m - of_target, 0.0))


def cross_entropy(logits, target, ignore_index=-100):
    """One loss for each row."""
    rows, n_cols = logits.shape
    out = torch.zeros((rows,), device=logits.device, dtype=logits.dtype)
    if logits.numel() == 0:
        return out
    if n_cols <= 65536 and ignore_index < 0:
        target = target.to(torch.int16)  # a quarter of the traffic
    _loss[(rows,)](
        logits, target.contiguous(), out, logits.stride(0), logits.stride(1), n_cols, ignore_index, BLOCK=2048
    )
    return out


def _both(x, target, ignore_index=-100):
    exact = torch.nn.functional.cross_entropy(x.double(), target, ignore_index=ignore_index, reduction="none")
    return cross_entropy(x, target, ignore_index), exact


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(8, 50257), torch.randint(0, 50257, (8,)))


def ordinary(dtype):
    for columns in (2, 1000, 32768, 65537):
        target = torch.randint(0, columns, (4,))
        target[0], target[1] = columns - 1, -100
        yield f"{columns}", _both(torch.randn(4, columns).to(dtype), target)
