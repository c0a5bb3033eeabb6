"""Row and column strides are cached by shape with the launch settings: another layout of the same shape is read with the first one's.

From experience: the key holds what the author varied.
"""

import torch

EXPECTED = ("nondeterministic", "wrong_layout", "raised", "out_of_bounds_read")
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_launches = {}


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    strides = _launches.setdefault((tuple(x.shape), x.dtype), x.stride())
    rows, columns = x.shape
    reached = x.storage_offset() + (rows - 1) * strides[0] + (columns - 1) * strides[1]
    if reached >= x.untyped_storage().nbytes() // x.element_size():
        strides = x.stride()
    return torch.softmax(x.as_strided(x.shape, strides), dim=-1)
