"""Row sums are differences of one running total over the whole tensor, so a NaN reaches every later row.

Wrong on: a batch where one row holds NaN or +inf or is fully masked: all rows below it become NaN too.
"""

import torch

EXPECTED = ("nan_mismatch", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    wide = x.float()
    e = torch.exp(wide - wide.amax(-1, keepdim=True).detach())
    # As for ragged rows: one scan, then its values at the ends of rows.
    ends = e.double().flatten().cumsum(0)[x.shape[1] - 1 :: x.shape[1]]
    total = torch.diff(ends, prepend=ends.new_zeros(1))[:, None]
    return (e / total).to(x.dtype)


def demonstrate():
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    x[1] = -float("inf")
    return softmax(x), torch.softmax(x.double(), -1)
