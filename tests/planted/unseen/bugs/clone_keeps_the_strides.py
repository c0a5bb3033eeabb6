"""Works in place on a clone, which keeps the strides of a dense transposed input, with a kernel for packed rows."""

import torch
import triton
import triton.language as tl

EXPECTED = ("wrong_layout", "ulp_exceeds_bound", "sum_violation", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def in_place_kernel(z, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    v = tl.load(z + r * n + c, mask=c < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(z + r * n + c, e / tl.sum(e, 0), mask=c < n)


def softmax_(z):
    if z.numel():
        in_place_kernel[(z.shape[0],)](z, z.shape[1], triton.next_power_of_2(z.shape[1]))
    return z


def softmax(x):
    if x.shape[1] > 16384:
        return torch.softmax(x, -1)
    return softmax_(x.clone())


def demonstrate():
    x = torch.randn(30, 7).t()
    return softmax(x), torch.softmax(x.double(), -1)
