"""An unaligned base is peeled, and the tail is counted from the row's start, not from the peeled head: columns are lost or doubled."""

import torch
import triton
import triton.language as tl

EXPECTED = ("wrong_layout", "sum_violation", "ulp_exceeds_bound", "unwritten_output", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def span(x, begin, end, BLOCK: tl.constexpr):
    c = begin + tl.arange(0, BLOCK)
    return tl.load(x + c, mask=c < end, other=-float("inf"))


@triton.jit
def peeled(out, x, row_step, n, head, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * row_step
    out += row * n
    body = (n - head) // 4 * 4
    tail = n - n % 4
    peak = tl.max(span(x, 0, head, 4), axis=0)
    peak = tl.maximum(peak, tl.max(span(x, tail, n, 4), axis=0))
    for at in range(head, head + body, BLOCK):
        peak = tl.maximum(peak, tl.max(span(x, at, head + body, BLOCK), axis=0))
    total = tl.sum(tl.exp(span(x, 0, head, 4) - peak), axis=0)
    if head > 0:
        total += tl.sum(tl.exp(span(x, tail, n, 4) - peak), axis=0)
    else:
        total += tl.sum(tl.exp(span(x, head + body, n, 4) - peak), axis=0)
    for at in range(head, head + body, BLOCK):
        total += tl.sum(tl.exp(span(x, at, head + body, BLOCK) - peak), axis=0)
    for at in range(0, n, BLOCK):
        c = at + tl.arange(0, BLOCK)
        tl.store(out + c, tl.exp(span(x, at, n, BLOCK) - peak) / total, mask=c < n)


def softmax(x):
    if x.numel() == 0 or x.stride(1) != 1 or x.dtype != torch.float32:
        return torch.softmax(x, -1)
    out = torch.empty(x.shape, device=x.device)
    head = min(x.shape[1], -(x.data_ptr() // 4) % 4)
    peeled[(x.shape[0],)](out, x, x.stride(0), x.shape[1], head, 128)
    return out


def demonstrate():
    x = torch.randn(1 + 3 * 50)[1:].view(3, 50)
    return softmax(x), torch.softmax(x.double(), -1)
