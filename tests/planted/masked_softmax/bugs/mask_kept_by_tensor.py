"""What a mask was made into is kept for each tensor, which may hold another mask later.

From experience: a step that is captured as a graph copies its masks into one tensor.
"""

import torch
import triton
import triton.language as tl
from torch.utils.weak import WeakTensorKeyDictionary

from softcheck import variant

EXPECTED = ("nondeterministic", "nan_mismatch")
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


_kept = WeakTensorKeyDictionary()


@triton.jit
def kernel(out, x, mask, s0, s1, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    hidden = tl.load(mask + row * columns + c, mask=c < columns, other=1)
    v = tl.load(x + row * s0 + c.to(tl.int64) * s1, mask=c < columns, other=-float("inf")).to(tl.float32)
    v = tl.where(hidden != 0, -float("inf"), v)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * columns + c, e / tl.sum(e, axis=0), mask=c < columns)


def as_bytes(mask):
    if mask not in _kept:
        _kept[mask] = mask.to(torch.uint8).contiguous()
    return _kept[mask]


@variant(operation="softmax", max_columns=65536)
def softmax(x, mask):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        kernel[(x.shape[0],)](out, x, as_bytes(mask), *x.stride(), x.shape[1], triton.next_power_of_2(x.shape[1]))
    return out
