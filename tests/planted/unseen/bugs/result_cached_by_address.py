"""Remembers the last row statistics by address, shape, dtype and version of the input, which a new tensor may share.

Wrong on: a tensor that takes the memory of a freed one, or one whose memory is refilled through numpy, .data or another library.
"""

import torch

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_last = {}


def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    key = (x.data_ptr(), x.shape, x.stride(), x.dtype, 0 if x.is_inference() else x._version)
    if key not in _last:
        wide = x.detach().float()
        maximum = wide.amax(-1, keepdim=True)
        _last.clear()
        _last[key] = maximum, (wide - maximum).exp().sum(-1, keepdim=True)
    maximum, total = _last[key]
    return ((x.detach().float() - maximum).exp() / total).to(x.dtype)


def demonstrate():
    import numpy as np

    held = np.zeros((2, 16), dtype=np.float32)
    x = torch.from_numpy(held)
    softmax(x)
    held[:] = np.arange(16)
    return softmax(x), torch.softmax(x.double(), -1)
