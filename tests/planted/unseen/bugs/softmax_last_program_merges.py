"""A counter that is never reset tells which program merges; calls of other splits find it at no multiple of theirs.

Wrong on: 3000 columns (3 splits), then 2048 (2 splits), in one process: the first program merges before the second has
written. Right as long as all calls have as many splits.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nondeterministic", "ulp_exceeds_bound", "sum_violation", "nan_mismatch", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

_MOST = 64
_workspaces = {}


@triton.jit
def _statistics(
    x_ptr,
    part_ptr,
    whole_ptr,
    count_ptr,
    stride_r,
    stride_c,
    n_cols,
    splits,
    width,
    BLOCK: tl.constexpr,
    MOST: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    x_ptr += row * stride_r
    m = -float("inf")
    s = 0.0
    for start in range(split * width, tl.minimum((split + 1) * width, n_cols), BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(x, 0))
        shift = tl.where(new == -float("inf"), 0.0, new)
        s = s * tl.exp(m - shift) + tl.sum(tl.exp(x - shift), 0)
        m = new
    tl.store(part_ptr + (row * MOST + split) * 2, m)
    tl.store(part_ptr + (row * MOST + split) * 2 + 1, s)
    tl.debug_barrier()
    count = tl.atomic_add(count_ptr + row, 1)
    if (count + 1) % splits == 0:
        i = tl.arange(0, MOST)
        ms = tl.load(part_ptr + (row * MOST + i) * 2, mask=i < splits, other=-float("inf"), cache_modifier=".cg")
        ss = tl.load(part_ptr + (row * MOST + i) * 2 + 1, mask=i < splits, other=0.0, cache_modifier=".cg")
        top = tl.max(ms, 0)
        tl.store(whole_ptr + row * 2, top)
        tl.store(whole_ptr + row * 2 + 1, tl.sum(tl.where(ss == 0.0, 0.0, ss * tl.exp(ms - top)), 0))


@triton.jit
def _normalise(x_ptr, whole_ptr, out_ptr, stride_r, stride_c, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_r + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    m = tl.load(whole_ptr + row * 2)
    s = tl.load(whole_ptr + row * 2 + 1)
    tl.store(out_ptr + row * n_cols + cols, tl.exp(x - m) / s, mask=cols < n_cols)


def softmax(x):
    rows, n_cols = x.shape
    out = torch.empty((rows, n_cols), device=x.device, dtype=x.dtype)
    if not out.numel():
        return out
    tiles = triton.cdiv(n_cols, 1024)
    width = 1024 * triton.cdiv(tiles, _MOST)
    splits = triton.cdiv(n_cols, width)
    if x.device not in _workspaces or _workspaces[x.device][0].numel() < rows:
        counts = torch.zeros((rows,), device=x.device, dtype=torch.int32)
        part = torch.zeros((rows, _MOST, 2), device=x.device, dtype=torch.float32)
        whole = torch.zeros((rows, 2), device=x.device, dtype=torch.float32)
        _workspaces[x.device] = counts, part, whole
    counts, part, whole = _workspaces[x.device]
    _statistics[(rows, splits)](x, part, whole, counts, *x.stride(), n_cols, splits, width, BLOCK=1024, MOST=_MOST)
    _normalise[(rows, triton.cdiv(n_cols, 1024))](x, whole, out, *x.stride(), n_cols, BLOCK=1024)
    return out


def _both(x):
    return softmax(x), torch.softmax(x.double(), -1)


def demonstrate():
    torch.manual_seed(0)
    softmax(torch.randn(4, 3000))
    return _both(torch.randn(4, 2048))


def ordinary(dtype):
    for _ in range(3):
        yield "2048", _both(torch.randn(4, 2048).to(dtype))
