"""Row maxima are cached by the input's address and shape; a tensor that is changed in place, or that reuses the address, gets old ones.

From experience: ``data_ptr()`` is no identity of a tensor's content.
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
    key = (x.data_ptr(), tuple(x.shape), x.stride(), x.dtype)
    if key not in _normalizers:
        _normalizers[key] = torch.logsumexp(x.double(), dim=-1, keepdim=True)
    return torch.exp(x.double() - _normalizers[key]).to(x.dtype)
