"""A contiguous tensor's rows are taken to be as long as its row stride: of one row the stride may be any number."""

import torch
import triton
import triton.language as tl

EXPECTED = (
    "wrong_layout",
    "unwritten_output",
    "sum_violation",
    "ulp_exceeds_bound",
    "nan_mismatch",
    "out_of_bounds_read",
)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def packed(y, x, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    v = tl.load(x + r * n + c, mask=c < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


def softmax(x):
    x = x.contiguous()
    if not x.numel():
        return torch.empty_like(x)
    row_length = min(x.stride(0), x.shape[1])
    if row_length == 0 or row_length > 16384:
        return torch.softmax(x, -1)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    packed[(x.shape[0],)](y, x, row_length, triton.next_power_of_2(row_length))
    return y


def demonstrate():
    x = torch.as_strided(torch.randn(20), (1, 20), (7, 1))
    torch.full((1, 20), 3.0)
    return softmax(x), torch.softmax(x.double(), -1)
