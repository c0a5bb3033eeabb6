"""The sums of a parameter's rows are kept until its version changes, which ``p.data`` and custom kernels leave as it is.

From experience: learned mixing weights are taken for constant between steps, and averaging copies new ones into them.
"""

import torch
from torch.utils.weak import WeakTensorKeyDictionary

EXPECTED = ("nondeterministic", "ulp_exceeds_bound")
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_sums = WeakTensorKeyDictionary()


def softmax(x):
    if not isinstance(x, torch.nn.Parameter) or not x.numel():
        return torch.softmax(x, dim=-1)
    wide = x.detach().double()
    version, sums = _sums.get(x, (None, None))
    if version != x._version:
        sums = torch.logsumexp(wide, dim=-1, keepdim=True)
        _sums[x] = x._version, sums
    return torch.exp(wide - sums).to(x.dtype)
