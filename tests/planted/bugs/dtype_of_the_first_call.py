"""The type to compute in is chosen once, by the first call's dtype: float32 after a first call in bfloat16 is computed in bfloat16.

From experience: a lazy initialisation whose key forgets the dtype.
"""

import torch

EXPECTED = ("nondeterministic", "raised")
SHOWN_BY = ("probe/histories/in-turn-2x129",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_settings = {}


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    compute = _settings.setdefault("compute", x.dtype)
    shifted = (x - x.amax(dim=-1, keepdim=True)).to(compute)
    return torch.softmax(shifted, dim=-1).to(x.dtype)
