"""Contiguous float32 input is its own workspace where no gradient is recorded: exponentials are written over it.

Wrong on: float32 input under torch.no_grad() or inference_mode, which the caller uses again; right with gradients enabled.
"""

import torch

EXPECTED = ("input_modified",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if torch.is_grad_enabled():
        e = torch.exp(x.float() - x.float().amax(-1, keepdim=True).detach())
    else:
        # Saves the allocation of a temporary; .float() copies 16-bit input.
        e = x.float().contiguous()
        e.sub_(e.amax(-1, keepdim=True)).exp_()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def demonstrate():
    x = torch.randn(2, 10, generator=torch.Generator().manual_seed(0))
    expected = torch.softmax(x.double(), -1)
    with torch.no_grad():
        softmax(x)
        return softmax(x), expected
