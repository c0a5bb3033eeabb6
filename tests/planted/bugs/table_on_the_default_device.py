"""A table is made without a device and read on the host: under ``torch.set_default_device("cuda")`` it lies where numpy can't read it.

From experience: scripts that set the default device once, at the top.
"""

import torch

EXPECTED = ("raised",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("cuda",)


def softmax(x):
    blocks = torch.tensor([2**k for k in range(18)]).numpy()
    assert x.shape[-1] <= blocks[-1]
    return torch.softmax(x, dim=-1)
