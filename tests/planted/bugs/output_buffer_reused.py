"""Returns the same buffer for every call of a shape: a result that the caller keeps changes under its hands.

From experience: an output pool, as captured graphs have them, without a word about it.
"""

import torch

EXPECTED = ("output_reused",)
SHOWN_BY = ("probe/input_untouched",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_buffers = {}


def softmax(x):
    key = (tuple(x.shape), x.dtype, x.device)
    if key not in _buffers:
        _buffers[key] = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return torch.softmax(x, dim=-1, out=_buffers[key])
