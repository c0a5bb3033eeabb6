"""Input with aligned gaps between rows gets an output with the same pitch, which is returned as if packed."""

import torch
import triton
import triton.language as tl

EXPECTED = ("wrong_layout", "ulp_exceeds_bound", "unwritten_output", "sum_violation", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def pitched(y, x, y_pitch, x_pitch, n, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        v = tl.load(x + r * x_pitch + c, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    s = 0.0
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        v = tl.load(x + r * x_pitch + c, mask=c < n, other=-float("inf")).to(tl.float32)
        s += tl.sum(tl.exp(v - top), 0)
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        v = tl.load(x + r * x_pitch + c, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * y_pitch + c, tl.exp(v - top) / s, mask=c < n)


def softmax(x):
    m, n = x.shape
    if m * n == 0:
        return torch.empty_like(x)
    if x.stride(1) != 1 or x.stride(0) < n:
        x = x.contiguous()
    pitch = x.stride(0) if m > 1 else n
    if pitch % 64 == 0 and m * pitch < 1 << 26:
        # Vector stores need aligned rows.
        memory = torch.empty(m * pitch, dtype=x.dtype, device=x.device)
        pitched[(m,)](memory, x, pitch, x.stride(0), n, 512)
        return memory[: m * n].view(m, n)
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    pitched[(m,)](y, x, n, x.stride(0), n, 512)
    return y


def demonstrate():
    x = torch.randn(3, 128)[:, :100]
    return softmax(x), torch.softmax(x.double(), -1)
