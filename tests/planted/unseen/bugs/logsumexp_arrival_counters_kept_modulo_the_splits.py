"""The last split to arrive at a row merges, told by a counter that is never reset but taken modulo the number of splits, which differs between widths.

Wrong on: up to 8 rows of 4096 columns or more after an odd number of calls of up to 8 rows of 1024 to 4095 columns: half of the splits is merged. Right as long as all widths have as many splits.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "inf_mismatch", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

counters = {}


@triton.jit
def logsumexp_kernel(
    out, maxima, totals, arrived, x, stride_row, stride_col, n_cols, share, SPLITS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    x += row * stride_row
    maximum = -float("inf")
    total = 0.0
    end = tl.minimum((split + 1) * share, n_cols)
    for start in range(split * share, end, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        logits = tl.load(x + cols.to(tl.int64) * stride_col, mask=cols < end, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(maximum, tl.max(logits, axis=0))
        safe = tl.where(tl.abs(larger) == float("inf"), 0.0, larger)
        total = total * tl.exp(maximum - safe) + tl.sum(tl.exp(logits - safe), axis=0)
        maximum = larger
    if SPLITS == 1:
        tl.store(out + row, tl.where(tl.abs(maximum) == float("inf"), 0.0, maximum) + tl.log(total))
    else:
        tl.store(maxima + row * SPLITS + split, maximum)
        tl.store(totals + row * SPLITS + split, total)
        tl.debug_barrier()
        before = tl.atomic_add(arrived + row, 1)
        if before % SPLITS == SPLITS - 1:
            parts = row * SPLITS + tl.arange(0, SPLITS)
            of_parts = tl.load(maxima + parts, volatile=True)
            largest = tl.max(of_parts, axis=0)
            safe = tl.where(tl.abs(largest) == float("inf"), 0.0, largest)
            sums = tl.load(totals + parts, volatile=True)
            tl.store(out + row, safe + tl.log(tl.sum(sums * tl.exp(of_parts - safe), axis=0)))


@variant(operation="logsumexp")
def logsumexp(x):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows, dtype=x.dtype, device=x.device)
    if not x.numel():
        return out.fill_(-float("inf"))
    splits = 1
    if n_rows <= 8 and n_cols >= 1024:  # few long rows would leave most of the device idle
        splits = 4 if n_cols < 4096 else 8
    if x.device not in counters:
        counters[x.device] = torch.zeros(8, dtype=torch.int32, device=x.device)
    maxima = torch.zeros((n_rows, splits), dtype=torch.float32, device=x.device)
    totals = torch.zeros_like(maxima)
    share = triton.cdiv(n_cols, splits)
    block = min(512, triton.next_power_of_2(n_cols))
    logsumexp_kernel[(n_rows, splits)](
        out, maxima, totals, counters[x.device], x, *x.stride(), n_cols, share, splits, block
    )
    return out


def demonstrate():
    torch.manual_seed(0)
    logsumexp(torch.randn(2, 1500))
    x = torch.randn(2, 5000)
    return logsumexp(x), torch.logsumexp(x.double(), -1)
