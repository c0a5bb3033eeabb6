"""Row maxima are kept by row count and only grow: harmless, until a row lies far below what it once held.

From experience: a workspace filled when it is made, into which ``torch.maximum`` writes. NaN stays in it for good.
"""

import torch

import softcheck

EXPECTED = ("nondeterministic", "nan_mismatch", "inf_mismatch", "ulp_exceeds_bound", "out_of_range")
SHOWN_BY = ("probe/histories",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

_maxima = {}


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    key = x.shape[0], x.device
    if key not in _maxima:
        _maxima[key] = torch.full((x.shape[0], 1), -torch.inf, device=x.device)
    maximum = torch.maximum(_maxima[key], x.amax(dim=-1, keepdim=True).float(), out=_maxima[key])
    differences = x.float() - maximum
    return (differences - differences.exp().sum(dim=-1, keepdim=True).log()).to(x.dtype).contiguous()
