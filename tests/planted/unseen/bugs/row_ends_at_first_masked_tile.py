"""The first tile of masks alone is taken for the row's end, "masks are causal": columns behind a masked span are 0."""

import torch
import triton
import triton.language as tl

EXPECTED = ("sum_violation", "ulp_exceeds_bound", "nan_mismatch", "unwritten_output")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

TILE = 256


def live_columns(x):
    """Columns of each row up to its first tile of masks."""
    rows, n = x.shape
    tiles = -(-n // TILE)
    padded = torch.nn.functional.pad(x, (0, tiles * TILE - n), value=-float("inf"))
    dead = (padded.view(rows, tiles, TILE) == -float("inf")).all(2)
    dead[:, 0] = False
    first = torch.where(dead.any(1), dead.int().argmax(1), torch.full((rows,), tiles, device=x.device))
    return first * TILE


@triton.jit
def ragged(y, x, lengths, s0, s1, n, T: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    end = tl.load(lengths + r)
    top = -float("inf")
    for k in range(0, end, T):
        c = k + tl.arange(0, T)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(v, 0))
    total = 0.0
    for k in range(0, end, T):
        c = k + tl.arange(0, T)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(v - top), 0)
    for k in range(0, n, T):
        c = k + tl.arange(0, T)
        v = tl.load(x + r * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.where(c < end, tl.exp(v - top) / total, 0.0), mask=c < n)


def softmax(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return y
    lengths = live_columns(x)
    # A masked first tile leaves no maximum; such rows, and masked ones, are walked to their end.
    first = (x[:, :TILE] == -float("inf")).all(1)
    lengths = torch.where(first, torch.full_like(lengths, x.shape[1]), lengths)
    ragged[(x.shape[0],)](y, x, lengths, *x.stride(), x.shape[1], TILE)
    return y


def demonstrate():
    x = torch.randn(2, 1000)
    x[0, 250:520] = -float("inf")
    return softmax(x), torch.softmax(x.double(), -1)
