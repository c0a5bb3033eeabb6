"""Rows of whole vectors of eight are addressed in vectors: a pitch that is no multiple of eight is rounded down to one.

Wrong on: a slice such as ``logits[:, :64]`` of a matrix of 100 columns, in 16 bits; packed rows and pitches of whole vectors are right.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")

LANES = 8


@triton.jit
def vectors(y, x, pitch, vectors_per_row, LANES: tl.constexpr, V: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    v = tl.arange(0, V)[:, None]
    lane = tl.arange(0, LANES)[None, :]
    inside = (v < vectors_per_row) & (lane < LANES)
    logits = tl.load(x + (row * pitch + v) * LANES + lane, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(logits - tl.max(tl.max(logits, 1), 0))
    tl.store(y + (row * vectors_per_row + v) * LANES + lane, e / tl.sum(tl.sum(e, 1), 0), mask=inside)


def softmax(x):
    rows, columns = x.shape
    whole = columns % LANES == 0 and x.stride(1) == 1 and x.data_ptr() % 16 == 0
    if not whole or columns > 8192 or x.element_size() != 2 or x.numel() == 0:
        return torch.softmax(x, -1)
    y = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
    width = triton.next_power_of_2(columns // LANES)
    vectors[(rows,)](y, x, x.stride(0) // LANES, columns // LANES, LANES, width)
    return y


def demonstrate():
    x = torch.randn(6, 100).half()[:, :64]
    return softmax(x), torch.softmax(x.double(), -1)
