"""Results are cached by shape and dtype: the second input of a shape gets the first one's probabilities.

From experience: a memo meant for the launch settings holds the result as well.
"""

import torch

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_cache = {}


def softmax(x):
    key = (tuple(x.shape), x.dtype, x.device)
    if key not in _cache:
        _cache[key] = torch.softmax(x, dim=-1)
    return _cache[key].clone()
