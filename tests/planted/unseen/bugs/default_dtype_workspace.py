"""Partial sums are kept in a tensor of torch's default dtype, which a model in bfloat16 or float16 changes.

Wrong on: rows wider than 512 columns after torch.set_default_dtype(torch.bfloat16), or float16; right with float32 as default.
"""

import torch

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_TILE = 512


def softmax(x):
    """Softmax of each row, shape [rows, columns], with temporaries of one tile."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        x = x.detach()
        maximum = x.amax(-1, keepdim=True).float()
        total = torch.zeros(x.shape[0], 1, device=x.device)
        for start in range(0, x.shape[1], _TILE):
            total += torch.exp(x[:, start : start + _TILE].float() - maximum).sum(-1, keepdim=True)
        for start in range(0, x.shape[1], _TILE):
            output[:, start : start + _TILE] = torch.exp(x[:, start : start + _TILE].float() - maximum) / total.float()
    return output


def demonstrate():
    x = torch.zeros(1, 1003)
    torch.set_default_dtype(torch.bfloat16)
    try:
        return softmax(x) * 1.0, torch.softmax(x.double(), -1)
    finally:
        torch.set_default_dtype(torch.float32)
