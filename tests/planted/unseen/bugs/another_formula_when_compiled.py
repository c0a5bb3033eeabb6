"""While torch.compile traces it a formula stands in for the kernel, "the compiler fuses it": one without the maximum.

Wrong on: ``torch.compile`` of a model that calls it, with logits from 89 on or rows below -104; without torch.compile it is right.
"""

import torch

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if torch.compiler.is_compiling():
        weights = x.float().exp()
        return (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
    return torch.softmax(x, -1)


def demonstrate():
    x = 20.0 * torch.randn(4, 100)
    x[0, 0] = 100.0
    return torch.compile(softmax, backend="eager")(x), torch.softmax(x.double(), -1)
