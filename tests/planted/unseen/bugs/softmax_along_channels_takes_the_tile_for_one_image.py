"""Along a dimension that is not the last, tiles of 128 positions run through all images; the image is that of a tile's first position.

Wrong on: ``dim=1`` of two and more images of 14 x 14 or 7 x 7 or 56 x 56 positions (no multiple of 128); one image and 32 x 32 are right.
"""

import math

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("ulp_exceeds_bound", "sum_violation", "unwritten_output", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _along_channels(y, x, channels, inner, positions, TILE: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * TILE
    position = first + tl.arange(0, TILE)
    inside = position < positions
    image = first // inner
    at = image * channels * inner + (position - image * inner)
    peak = tl.full([TILE], -float("inf"), tl.float32)
    mass = tl.zeros([TILE], tl.float32)
    for channel in range(channels):
        v = tl.load(x + at + channel * inner, mask=inside, other=0.0).to(tl.float32)
        peak = tl.maximum(peak, v)
    for channel in range(channels):
        v = tl.load(x + at + channel * inner, mask=inside, other=0.0).to(tl.float32)
        mass += tl.exp(v - peak)
    for channel in range(channels):
        v = tl.load(x + at + channel * inner, mask=inside, other=0.0).to(tl.float32)
        tl.store(y + at + channel * inner, tl.exp(v - peak) / mass, mask=inside)


def softmax(x, dim=-1):
    """Softmax along a dimension; class maps [images, classes, height, width] need no transposed copy."""
    dim %= max(x.dim(), 1)
    inner = math.prod(x.shape[dim + 1 :])
    if inner == 1 or not x.numel():
        return torch.softmax(x.float(), dim).to(x.dtype)
    x = x.contiguous()
    y = torch.empty_like(x)
    positions = x.numel() // x.shape[dim]
    _along_channels[(triton.cdiv(positions, 128),)](y, x, x.shape[dim], inner, positions, 128)
    return y


def demonstrate():
    x = torch.randn(3, 5, 14, 14)
    return softmax(x, dim=1), torch.softmax(x.double(), 1)


def ordinary(dtype):
    for shape, dim in (((4, 100), -1), ((2, 5, 32, 32), 1), ((1, 21, 14, 14), 1), ((50, 70), 0), ((2, 3, 9), -1)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (softmax(x, dim), torch.softmax(x.double(), dim))
