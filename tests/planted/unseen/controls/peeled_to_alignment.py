"""An unaligned base is peeled to 16 bytes, row by row; head, body and tail are three parts that meet exactly."""

import torch
import triton
import triton.language as tl

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def part(x, begin, end, B: tl.constexpr):
    c = begin + tl.arange(0, B)
    return tl.load(x + c, mask=c < end, other=-float("inf")).to(tl.float32)


@triton.jit
def peeled(y, x, pitch, n, head, V: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    x += r * pitch
    tail = head + (n - head) // V * V
    top = tl.maximum(tl.max(part(x, 0, head, V), 0), tl.max(part(x, tail, n, V), 0))
    for k in range(head, tail, B):
        top = tl.maximum(top, tl.max(part(x, k, tail, B), 0))
    mass = tl.sum(tl.exp(part(x, 0, head, V) - top), 0) + tl.sum(tl.exp(part(x, tail, n, V) - top), 0)
    for k in range(head, tail, B):
        mass += tl.sum(tl.exp(part(x, k, tail, B) - top), 0)
    for k in range(0, n, B):
        c = k + tl.arange(0, B)
        tl.store(y + r * n + c, tl.exp(part(x, k, n, B) - top) / mass, mask=c < n)


def softmax(x):
    if x.numel() == 0 or x.stride(1) != 1:
        return torch.softmax(x, -1)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    vector = 16 // x.element_size()
    head = min(x.shape[1], -(x.data_ptr() // x.element_size()) % vector)
    peeled[(x.shape[0],)](y, x, x.stride(0), x.shape[1], head, vector, 256)
    return y
