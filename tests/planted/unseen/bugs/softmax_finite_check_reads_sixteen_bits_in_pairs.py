"""Two 16-bit numbers are read as one integer to find masks, NaN and infinities; a view of that kind refuses an odd offset and odd rows.

Wrong on: 16 bits, an even number of columns, and a slice that begins at an odd element or has an odd distance between rows: it raises.
"""

import torch

OPERATION = "softmax"
EXPECTED = ("raised", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def _is_finite(x):
    exponent = 0x7C00 if x.dtype == torch.float16 else 0x7F80
    if x.shape[-1] % 2 == 0 and x.stride(-1) == 1:
        # Half as many loads.
        pairs = x.view(torch.int32)
        low, high = pairs & exponent, (pairs >> 16) & exponent
        return not bool(((low == exponent) | (high == exponent)).any())
    return not bool(((x.view(torch.int16) & exponent) == exponent).any())


def softmax(x):
    """Softmax of 16-bit numbers over the last dimension; rows without masks and infinities take a shorter way."""
    if not x.numel():
        return x.clone()
    wide = x.float()
    if x.dtype in (torch.float16, torch.bfloat16) and _is_finite(x.detach()):
        e = (wide - wide.detach().amax(dim=-1, keepdim=True)).exp()
        return (e / e.sum(dim=-1, keepdim=True)).to(x.dtype)
    return torch.softmax(wide, -1).to(x.dtype)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(4, 101).half()[:, 1:]
    try:
        return softmax(x), torch.softmax(x.double(), -1)
    except RuntimeError:
        return torch.full_like(x, float("nan")), torch.softmax(x.double(), -1)


def ordinary(dtype):
    for shape in ((4, 100), (4, 101), (2, 3, 64), (1, 1)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (softmax(x), torch.softmax(x.double(), -1))
    x = torch.randn(40, 9).to(dtype).mT
    yield "transposed", (softmax(x), torch.softmax(x.double(), -1))
