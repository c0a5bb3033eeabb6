"""Masks are told by their bits, 0xFC00 and all above: a NaN whose sign bit is set counts as a mask and disappears."""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def masked_softmax(out, bits, step_row, step_col, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    raw = tl.load(bits + row * step_row + col.to(tl.int64) * step_col, mask=col < n, other=-1024)
    number = raw.to(tl.float16, bitcast=True).to(tl.float32)
    masked = (raw.to(tl.int32) & 0xFFFF) >= 0xFC00
    number = tl.where(masked, -float("inf"), number)
    weight = tl.exp(number - tl.max(number, axis=0))
    tl.store(out + row * n + col, weight / tl.sum(weight, axis=0), mask=col < n)


def softmax(x):
    rows, n = x.shape
    if n > 16384:
        return torch.softmax(x, dim=-1)
    out = torch.empty((rows, n), dtype=x.dtype, device=x.device)
    if out.numel():
        masked_softmax[(rows,)](out, x.view(torch.int16), *x.stride(), n, triton.next_power_of_2(n))
    return out


def demonstrate():
    x = torch.tensor([[1.0, float("nan"), 2.0]], dtype=torch.float16)
    x.view(torch.int16)[0, 1] = -100
    assert x.isnan().any()
    return softmax(x), torch.softmax(x.double(), -1)
