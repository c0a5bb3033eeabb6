"""The second pass runs over flat elements and finds the row by a multiplication with ceil(2^20 / columns): too large for high numbers.

Wrong on: tall narrow input whose width is no power of two: from 26215 rows of 10 columns, or 49933 rows of 7, as a data set's logits are.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def quotients(y, e, sums, elements, magic, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    row = (i * magic) >> 20
    total = tl.load(sums + row, mask=i < elements, other=1.0)
    tl.store(y + i, tl.load(e + i, mask=i < elements) / total, mask=i < elements)


def softmax(x):
    rows, columns = x.shape
    if not 1 < columns <= 64 or rows < 1024:
        return torch.softmax(x, -1)
    wide = x.float()
    e = torch.exp(wide - wide.amax(1, keepdim=True)).contiguous()
    y = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
    # Room for the last row's successor, whose number a rounded quotient may give.
    sums = torch.nn.functional.pad(e.sum(1), (0, 1 + rows // 64), value=1.0)
    magic = -(-(1 << 20) // columns)
    quotients[(triton.cdiv(e.numel(), 16384),)](y, e, sums, e.numel(), magic, 16384)
    return y


def demonstrate():
    x = torch.randn(60000, 10)
    return softmax(x), torch.softmax(x.double(), -1)
