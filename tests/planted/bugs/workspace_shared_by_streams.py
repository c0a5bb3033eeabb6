"""One workspace for each device: calls on two streams at once write their sums over each other's.

From experience: a workspace is safe in one stream's order alone.
"""

import torch

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("cuda",)

_workspaces = {}


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    key = (x.shape[0], x.device)
    if key not in _workspaces:
        _workspaces[key] = torch.empty(x.shape[0], 1, dtype=torch.float64, device=x.device)
    sums = _workspaces[key]
    logits = x.detach().double()
    exponentials = torch.exp(logits - logits.amax(dim=-1, keepdim=True))
    torch.sum(exponentials, dim=-1, keepdim=True, out=sums)
    return (exponentials / sums).to(x.dtype)
