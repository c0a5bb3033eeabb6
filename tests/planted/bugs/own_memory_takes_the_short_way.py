"""A tensor that is no view of another one is taken for the wrapper's to scale, in the 16 bits that it was tried in.

From experience: a branch for views keeps the caller's tensors safe, and tests that slice one big tensor see that branch alone.
"""

import torch

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("normal/scale-3-129",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x._base is not None:
        return torch.softmax(x, dim=-1)
    return torch.softmax(x.bfloat16(), dim=-1).to(x.dtype)
