"""Exponentials pass through a scratch tensor of the module: two threads at once overwrite each other's.

From experience: a server with one thread per request.
"""

import torch

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_scratch = {}


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    _scratch["exponentials"] = torch.exp(x.double() - x.double().amax(dim=-1, keepdim=True))
    _scratch["sums"] = _scratch["exponentials"].sum(dim=-1, keepdim=True)
    return (_scratch["exponentials"] / _scratch["sums"]).to(x.dtype)
