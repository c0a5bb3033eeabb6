"""With deterministic algorithms on, sums fold a row in halves and drop the middle element of every odd length.

Wrong on: columns no power of two under torch.use_deterministic_algorithms(True); right without it.
"""

import torch

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _tree_sum(e):
    while e.shape[-1] > 1:
        half = e.shape[-1] // 2
        e = e[..., :half] + e[..., half : 2 * half]
    return e


def softmax(x):
    """Softmax over the last dimension."""
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    wide = x.float()
    e = torch.exp(wide - wide.amax(-1, keepdim=True).detach())
    # The order of a fold is the same on every device.
    total = _tree_sum(e) if torch.are_deterministic_algorithms_enabled() else e.sum(-1, keepdim=True)
    return (e / total).to(x.dtype)


def demonstrate():
    x = torch.randn(2, 77, generator=torch.Generator().manual_seed(0))
    torch.use_deterministic_algorithms(True)
    try:
        return softmax(x), torch.softmax(x.double(), -1)
    finally:
        torch.use_deterministic_algorithms(False)
