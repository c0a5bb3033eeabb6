"""A cache of 32 widths drops its oldest entry from one of its two lists alone: from then on each width gets its neighbour's.

From experience: eviction is what no test reaches.
"""

import torch

EXPECTED = ("nondeterministic", "ulp_exceeds_bound", "order_violation", "nan_mismatch")
SHOWN_BY = ("probe/histories/pairs-2x129",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_keys, _widths = [], []


def softmax(x):
    key = (x.shape[-1], x.dtype)
    if key not in _keys:
        _keys.append(key)
        _widths.append(x.shape[-1])
        if len(_keys) > 32:
            _keys.pop(0)
    used = min(_widths[_keys.index(key)], x.shape[-1])
    out = torch.zeros_like(x)
    out[:, :used] = torch.softmax(x[:, :used], dim=-1)
    return out
