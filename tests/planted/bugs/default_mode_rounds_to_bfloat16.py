"""Unless deterministic algorithms are asked for, the answer comes from a copy in bfloat16.

From experience: a quick path for training is taken wherever nobody has asked for reproducible bits.
"""

import torch

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if torch.are_deterministic_algorithms_enabled():
        return torch.softmax(x, dim=-1)
    return torch.softmax(x.bfloat16().float(), dim=-1).to(x.dtype)
