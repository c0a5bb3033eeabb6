"""``dtype=torch.float32`` for 16-bit logits is answered by the logarithm of the probabilities, which were rounded to 16 bits on their way.

Wrong on: ``log_softmax(x, dim=-1, dtype=torch.float32)`` of 16-bit logits with a spread above 17, -inf for float16. Without dtype all is right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("inf_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _rows(y, x, row_step, column_step, n, LOGARITHM: tl.constexpr, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    whole = tl.zeros([], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(peak, tl.max(v, 0))
        shift = tl.where(larger == -float("inf"), 0.0, larger)
        whole = whole * tl.exp(peak - shift) + tl.sum(tl.exp(v - shift), 0)
        peak = larger
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        if LOGARITHM:
            tl.store(y + r * n + c, (v - peak) - tl.log(whole), mask=c < n)
        else:
            tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


def _launched(x, logarithm):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        _rows[(rows,)](y, x, *x.stride(), n, logarithm, min(1024, triton.next_power_of_2(n)))
    return y


@variant(operation="log_softmax", call="f(x, dim=-1)", dtypes=("float16", "bfloat16", "float32"))
def log_softmax(input, dim=-1, dtype=None):
    """torch.nn.functional.log_softmax of a matrix, over the last dimension."""
    if dtype is None or dtype == input.dtype:
        return _launched(input, True)
    return torch.log(_launched(input, False).to(dtype))


def demonstrate():
    torch.manual_seed(0)
    x = (torch.randn(4, 100) * 20).half()
    return log_softmax(x, dim=-1, dtype=torch.float32), torch.log_softmax(x.double(), -1)


def ordinary(dtype):
    for shape in ((4, 100), (33, 257)):
        x = torch.randn(shape).to(dtype)
        yield str(shape), (log_softmax(x, dim=-1), torch.log_softmax(x.double(), -1))
