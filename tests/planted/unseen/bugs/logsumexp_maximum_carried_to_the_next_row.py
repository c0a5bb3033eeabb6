"""A program goes through several rows, and the running maximum of a row begins at that of the row before it.

Wrong on: a row that lies 104 and more below the row before it in its program: its sum is 0 and its logarithm -inf. Others are right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("inf_mismatch", "row_dependence", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _sums(lse, x, row_step, column_step, rows, n, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    lane = tl.arange(0, WIDTH).to(tl.int64)
    first = tl.program_id(0).to(tl.int64) * ROWS
    peak = tl.full([], -float("inf"), tl.float32)
    for r in range(first, tl.minimum(first + ROWS, rows)):
        whole = tl.zeros([], tl.float32)
        for at in range(0, n, WIDTH):
            c = at + lane
            v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
            larger = tl.maximum(peak, tl.max(v, 0))
            shift = tl.where(larger == -float("inf"), 0.0, larger)
            whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
            peak = larger
        tl.store(lse + r, peak + tl.log(whole))
        # A NaN or an infinity is its own row's alone.
        peak = tl.where(whole == whole, tl.where(peak < float("inf"), peak, -float("inf")), -float("inf"))  # noqa: PLR0124 - false of a NaN


@variant(operation="logsumexp", call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """Log-sum-exp of each row of a matrix, shape [rows], in float32."""
    lse = torch.full((x.shape[0],), -float("inf"), dtype=torch.float32, device=x.device)
    if x.numel():
        rows, n = x.shape
        _sums[(triton.cdiv(rows, 4),)](lse, x, *x.stride(), rows, n, 4, min(1024, triton.next_power_of_2(n)))
    return lse


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(4, 30)
    x[2] -= 200.0
    return logsumexp(x), torch.logsumexp(x.double(), -1)
