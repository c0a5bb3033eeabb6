"""Right: the mask is packed to one bit for each column before the launch, as a bitmask of whole bytes, and the kernel takes the bits out."""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _masked(y, x, bits, row_step, column_step, bits_row_step, n, scale, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    byte = tl.load(bits + r * bits_row_step + c // 8, mask=c < n, other=255).to(tl.int32)
    seen = (c < n) & (((byte >> (c % 8).to(tl.int32)) & 1) == 0)
    v = tl.load(x + r * row_step + c * column_step, mask=seen, other=-float("inf")).to(tl.float32) * scale
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


def _packed(mask):
    """Bit c % 8 of byte c // 8 is 1 where the column c is hidden; bits behind the row are 0."""
    whole = torch.nn.functional.pad(mask.to(torch.uint8), (0, -mask.shape[1] % 8))
    places = torch.arange(8, dtype=torch.uint8, device=mask.device)
    return (whole.view(mask.shape[0], -1, 8) << places).sum(-1, dtype=torch.uint8)


@variant(parameters={"scale": 0.25}, call="f(x, mask, scale)", dtypes=("float16", "bfloat16", "float32"))
def softmax(x, mask, scale):
    """Softmax of scale * x without the columns where the mask is True."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = x.shape
        bits = _packed(mask)
        _masked[(rows,)](y, x, bits, *x.stride(), bits.stride(0), n, scale, triton.next_power_of_2(n))
    return y


def _both(x, mask):
    exact = torch.softmax(torch.where(mask, -float("inf"), x.double() * 0.25), -1)
    return softmax(x, mask, 0.25), exact


def ordinary(dtype):
    for rows, n in ((4, 100), (33, 257), (1, 1), (5, 8), (3, 0), (0, 3)):
        yield f"{rows} {n}", _both(torch.randn(rows, n).to(dtype), torch.rand(rows, n) < 0.3)
    x, mask = torch.randn(40, 12).to(dtype).mT, torch.rand(1, 40) < 0.3
    x[:, mask[0]] = float("nan")
    yield "transposed, one mask for all, NaN behind it", _both(x, mask.expand(12, 40))
    mask = torch.zeros(4, 29, dtype=torch.bool)
    mask[1, 27:], mask[2] = True, True
    yield "tail and dead row", _both(torch.randn(4, 29).to(dtype), mask)
