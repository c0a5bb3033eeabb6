"""The cap is the logit times tanh(t) / t, which is 0 / 0 at a logit of exactly zero, and one such logit makes its row NaN.

Wrong on: logits that hold an exact zero, as behind a ReLU, dropout, or a layer initialised with zeros. Others are right."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _factor(v, cap):
    """tanh(t) / t for t = v / cap."""
    t = tl.abs(v / cap)
    square = t * t
    # A series where 1 - exp(-2 t) would cancel.
    small = (t - t * square * (0.33333333 - square * (0.13333333 - square * (0.05396825 - square * 0.021869488)))) / t
    e = tl.exp(-2.0 * t)
    return tl.where(t < 0.15, small, (1.0 - e) / ((1.0 + e) * t))


@triton.jit
def _rows(y, x, row_step, column_step, n, cap, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
    # What is hidden stays hidden, padding included.
    capped = tl.where(v == -float("inf"), v, v * _factor(v, cap))
    e = tl.exp(capped - tl.max(capped, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


@variant(parameters={"softcap": 30}, call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def softmax(x):
    """Softmax of 30 tanh(x / 30) in each row."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        _rows[(rows,)](y, x, *x.stride(), n, 30.0, triton.next_power_of_2(n))
    return y


def _both(x):
    return softmax(x), torch.softmax(30 * torch.tanh(x.double() / 30), -1)


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(4, 20).relu())


def ordinary(dtype):
    yield "4x100", _both(torch.randn(4, 100).to(dtype))
    yield "33x257", _both(torch.randn(33, 257).to(dtype))
    yield "large", _both((torch.randn(4, 100) * 50).to(dtype))
