"""The soft cap takes its hyperbolic tangent from ``tanh.approx.f32``, which is good to 11 bits: capped logits are off by 5e-4 of themselves.

Wrong on: logits around 12 with a soft cap of 30, by 3e-4 in float32 (2.6e-4 on an H100); randn is off by 1e-5, which tests with an absolute tolerance let pass, and so does any rounding to 16 bits.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("cuda",)

_CAP = 30.0


@triton.jit
def _tanh(t):
    return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [t], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def _capped(y, x, row_step, column_step, n, cap, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
    capped = tl.where(v == -float("inf"), v, cap * _tanh(v / cap))
    e = tl.exp(capped - tl.max(capped, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


@variant(parameters={"softcap": _CAP}, call="f(x)", max_columns=131072, dtypes=("float16", "bfloat16", "float32"))
def softmax(x):
    """Softmax of 30 tanh(x / 30) in each row."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        _capped[(rows,)](y, x, *x.stride(), n, _CAP, triton.next_power_of_2(n))
    return y


def demonstrate():
    torch.manual_seed(0)
    x = 12.0 * torch.randn(4, 50, device="cuda" if torch.cuda.is_available() else "cpu")
    return softmax(x), torch.softmax(_CAP * torch.tanh(x.double() / _CAP), -1)
