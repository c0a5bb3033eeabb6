"""A thread has its own block limit, which is set in the importing one; in any other rows end at 512 columns.

From experience: a server answers in threads of a pool.
"""

import threading

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "nondeterministic", "sum_violation", "out_of_range")
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


_local = threading.local()
_local.cap = 65536


@triton.jit
def kernel(out, x, s0, s1, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * s0 + c.to(tl.int64) * s1, mask=c < columns, other=-float("inf")).to(tl.float32)
    d = v - tl.max(v, axis=0)
    log_sum = tl.log(tl.sum(tl.exp(d), axis=0))
    tl.store(out + row * columns + c, d - log_sum, mask=c < columns)
    for start in range(BLOCK, columns, BLOCK):
        t = start + tl.arange(0, BLOCK)
        w = tl.load(x + row * s0 + t.to(tl.int64) * s1, mask=t < columns, other=-float("inf")).to(tl.float32)
        tl.store(out + row * columns + t, (w - tl.max(v, axis=0)) - log_sum, mask=t < columns)


@variant(operation="log_softmax", max_columns=65536)
def log_softmax(x):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        rows, columns = x.shape
        block = min(triton.next_power_of_2(columns), getattr(_local, "cap", 512))
        kernel[(rows,)](out, x, *x.stride(), columns, block)
    return out
