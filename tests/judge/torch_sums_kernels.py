"""Variants that work with Triton and with torch in one call; they differ in who adds up the row."""

import torch
import triton
import triton.language as tl


@triton.jit
def _copy(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < count), mask=at < count)


def _copied(x):
    y = torch.empty_like(x)
    _copy[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096)
    return y


def sums_with_torch(x):
    """A kernel prepares the rows; the softmax is torch's."""
    return torch.softmax(_copied(x), dim=-1)


def sums_itself(x):
    """Torch finds the maximum and prepares the rows; the sum would be a kernel's, here of one block alone."""
    shifted = x - x.amax(dim=-1, keepdim=True)
    return _copied(torch.exp(shifted))
