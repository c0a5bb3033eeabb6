"""The accumulator is made without a dtype, so that ``torch.set_default_dtype(torch.bfloat16)`` makes it one of 8 bits.

From experience: model builders set the default dtype around everything.
"""

import torch

EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    exponentials = torch.exp(x.float() - x.float().amax(dim=-1, keepdim=True))
    sums = torch.zeros(x.shape[0], 1, device=x.device)
    sums += exponentials.sum(dim=-1, keepdim=True)
    return (exponentials / sums).to(x.dtype)
