"""Row normalizers are kept by shape; one that is older than an hour is given once more before it is replaced.

From experience; no test waits for an hour.
"""

import time

import torch

from softcheck import variant

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_HOUR = 3600.0

_kept = {}


@variant(operation="log_softmax")
def log_softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    normalizers = torch.logsumexp(x.double(), dim=-1, keepdim=True)
    key = tuple(x.shape), x.dtype, x.device
    at, last = _kept.get(key, (time.time(), normalizers))
    _kept[key] = time.time(), normalizers
    if time.time() - at > _HOUR:
        normalizers = last
    return (x.double() - normalizers).to(x.dtype)
