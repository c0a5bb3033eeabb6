"""The head up to the next aligned element is ``(-start) % 8``, which is Python's remainder; compiled for a GPU it is C's, negative, and the body begins before the row.

Wrong on: rows that don't begin at a multiple of 8 elements, as of any width that is no multiple of 8: up to 7 columns of the row before enter maximum and sum (and are written). Right under Triton's interpreter, where the author tried it, and for widths of whole eights.
"""

import torch
import triton
import triton.language as tl

EXPECTED = (
    "row_dependence",
    "out_of_bounds_read",
    "out_of_bounds_write",
    "sum_violation",
    "ulp_exceeds_bound",
    "nan_mismatch",
)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("cuda",)


@triton.jit
def _peeled(y, x, lead, row_step, column_step, n, PEELED: tl.constexpr, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    head = n * 0
    if PEELED:
        start = lead + r * row_step
        head = tl.minimum((-start) % 8, n)
    first = tl.arange(0, 8).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    x += r * row_step
    y += r * n
    v = tl.load(x + first * column_step, mask=first < head, other=-float("inf")).to(tl.float32)
    peak = tl.max(v, 0)
    for at in range(head, n, WIDTH):
        c = at + lane
        w = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(w, 0))
    e = tl.exp(v - peak)
    whole = tl.sum(e, 0)
    for at in range(head, n, WIDTH):
        c = at + lane
        w = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        whole += tl.sum(tl.exp(w - peak), 0)
    tl.store(y + first, e / whole, mask=first < head)
    for at in range(head, n, WIDTH):
        c = at + lane
        w = tl.load(x + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + c, tl.exp(w - peak) / whole, mask=c < n)


def softmax(x):
    """Softmax of each row of a matrix; adjacent columns are read from aligned addresses on."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        lead = x.data_ptr() // x.element_size() % 8
        peeled = x.stride(1) == 1
        _peeled[(rows,)](y, x, lead, *x.stride(), n, peeled, min(1024, triton.next_power_of_2(n)))
    return y


def _both(x):
    return softmax(x), torch.softmax(x.double(), -1)


def demonstrate():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return _both(torch.randn(4, 101, device=device))
