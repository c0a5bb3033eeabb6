"""Row statistics are cached by ``id(x)``, which the next tensor has as soon as this one is freed.

From experience: an identity outlives its object.
"""

import torch

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_normalizers = {}


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    key = (id(x), x.data_ptr(), x._version, tuple(x.shape), x.stride(), x.dtype)
    if key not in _normalizers:
        _normalizers[key] = torch.logsumexp(x.detach().double(), dim=-1, keepdim=True)
    return torch.exp(x.double() - _normalizers[key]).to(x.dtype)
