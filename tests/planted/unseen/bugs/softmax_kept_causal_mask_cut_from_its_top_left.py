"""The causal mask is kept and cut to size from its top left, whatever number of keys beyond the queries it was made for.

Wrong on: a call after one of at least as many queries and keys, but another difference of the two; right otherwise.
"""

import math
import threading

import torch

from softcheck import variant

FUNCTION = "causal_softmax"
EXPECTED = ("masked_not_zero", "ulp_exceeds_bound", "nan_mismatch", "nondeterministic", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_masks = {}
_lock = threading.Lock()


def _hidden(queries, keys, device):
    with _lock:
        mask = _masks.get(device)
        if mask is None or mask.shape[0] < queries or mask.shape[1] < keys:
            rows, columns = queries, keys
            if mask is not None and keys - queries == mask.shape[1] - mask.shape[0]:
                rows, columns = max(rows, mask.shape[0]), max(columns, mask.shape[1])
            mask = torch.ones(rows, columns, dtype=torch.bool, device=device).triu(columns - rows + 1)
            _masks[device] = mask
    return mask[:queries, :keys]


@variant(operation="softmax", parameters={"causal": "bottom-right"}, dimensions=4)
def causal_softmax(scores):
    """Causal softmax of scores [.., queries, keys]; the last query sees the last key. A larger mask serves smaller scores."""
    queries, keys = scores.shape[-2:]
    if not scores.numel():
        return torch.empty_like(scores)
    wide = scores if scores.dtype == torch.float64 else scores.float()
    if queries > 1:
        wide = wide.masked_fill(_hidden(queries, keys, scores.device), -math.inf)
    top = wide.detach().amax(dim=-1, keepdim=True)
    e = (wide - top).exp()
    return (e / e.sum(dim=-1, keepdim=True)).to(scores.dtype)


def demonstrate():
    torch.manual_seed(0)
    causal_softmax(torch.randn(50, 50))
    x = torch.randn(2, 30, 40)
    hidden = torch.ones(30, 40, dtype=torch.bool).triu(11)
    return causal_softmax(x), torch.softmax(x.double().masked_fill(hidden, -math.inf), -1)
