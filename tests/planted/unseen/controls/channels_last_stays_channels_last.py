"""The output has the memory format of the input, channels last or any dense one, declared, and is stored through its strides."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


@variant(dimensions=4)
def softmax(x):
    y = torch.empty_like(x)
    if x.numel():
        wide = x.detach().float()
        e = torch.exp(wide - wide.amax(-1, keepdim=True))
        y.copy_(e / e.sum(-1, keepdim=True))
    return y.detach()
