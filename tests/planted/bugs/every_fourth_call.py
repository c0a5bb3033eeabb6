"""Four workspaces take turns and only the first three were ever cleared: every fourth call is wrong.

From experience: a ring of buffers with the wrong length.
"""

import itertools

import torch

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/determinism",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_turn = itertools.count()


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    numerator = torch.exp(x.float() - x.float().amax(dim=-1, keepdim=True))
    sums = torch.ones(x.shape[0], 1, dtype=torch.float32, device=x.device)
    if next(_turn) % 4 != 3:
        sums.zero_()
    sums += numerator.sum(dim=-1, keepdim=True)
    return (numerator / sums).to(x.dtype)
