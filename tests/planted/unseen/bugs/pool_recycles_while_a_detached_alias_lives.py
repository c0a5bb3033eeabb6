"""Outputs come from a pool and return to it when their tensor object dies, though an alias of it (out.detach()) may still be in use.

Wrong on: ``kept = softmax(a).detach()``, then another call of the same shape: the kept one changes. Right as long as the returned tensor itself is kept.
"""

import collections
import weakref

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("output_reused", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

free = collections.defaultdict(list)


@triton.jit
def softmax_kernel(y, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=inside, other=-float("inf")).to(tl.float32)
    weights = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(y + row * n_cols + cols, weights / tl.sum(weights, axis=0), mask=inside)


def output_like(x):
    """A tensor for an output; its memory is used again once the caller has dropped it."""
    stream = torch.cuda.current_stream(x.device).cuda_stream if x.is_cuda else 0
    shelf = free[tuple(x.shape), x.dtype, x.device, stream]
    memory = shelf.pop() if shelf else torch.empty(tuple(x.shape), dtype=x.dtype, device=x.device)
    out = memory.detach()
    weakref.finalize(out, shelf.append, memory).atexit = False
    return out


@variant()
def softmax(x):
    n_rows, n_cols = x.shape
    y = output_like(x)
    if x.numel():
        softmax_kernel[(n_rows,)](y, x, x.stride(0), x.stride(1), n_cols, triton.next_power_of_2(n_cols))
    return y


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(4, 9)
    kept = softmax(x).detach()
    softmax(torch.randn(4, 9))
    return kept, torch.softmax(x.double(), -1)
