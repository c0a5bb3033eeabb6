"""Row sums are a product of the exponentials with ones, which autocast makes in 16 bits.

Wrong on: calls within ``torch.autocast``, by 1.4e-3 for float32 under bfloat16; right otherwise.
"""

import torch

OPERATION = "softmax"
EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

ROWS_AT_ONCE = 4096


def _rows(x):
    wide = x if x.dtype == torch.float64 else x.float()
    top = wide.detach().amax(dim=-1, keepdim=True)
    e = (wide - top).exp()
    total = e @ e.new_ones(e.shape[-1], 1)
    return (e / total).to(x.dtype)


def softmax(x, dim=-1):
    """Softmax over any dimension of any floating dtype; a product with ones is quicker than a reduction on most devices."""
    if x.dim() == 0:
        return torch.ones_like(x)
    moved = x.movedim(dim, -1)
    if not x.numel():
        return torch.empty_like(x)
    if x.requires_grad or moved.shape[:-1].numel() <= ROWS_AT_ONCE:
        return _rows(moved).movedim(-1, dim)
    flat = moved.reshape(-1, moved.shape[-1])
    return torch.cat([_rows(part) for part in flat.split(ROWS_AT_ONCE)]).view(moved.shape).movedim(-1, dim)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(4, 1000)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = softmax(x)
    return y, torch.softmax(x.double(), -1)
