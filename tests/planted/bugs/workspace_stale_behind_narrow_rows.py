"""A workspace as wide as the widest row so far is summed as a whole: behind a narrower row lie the last one's exponentials.

From experience: a buffer that only grows, and a reduction over all of it.
"""

import torch

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_workspaces = {}


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    rows, columns = x.shape
    held = _workspaces.get(x.device)
    if held is None or held.shape[0] < rows or held.shape[1] < columns:
        held = torch.zeros(rows, columns, dtype=torch.float64, device=x.device)
        _workspaces[x.device] = held
    logits = x.detach().double()
    held[:rows, :columns] = torch.exp(logits - logits.amax(dim=-1, keepdim=True))
    return (held[:rows, :columns] / held[:rows].sum(dim=-1, keepdim=True)).to(x.dtype)
