"""A fast path without gradients leaves out the maximum "since inference logits are small".

From experience: tests run with gradients, serving without.
"""

import torch

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound", "sum_violation", "nondeterministic")
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if torch.is_grad_enabled() or x.numel() == 0:
        return torch.softmax(x, dim=-1)
    exponentials = torch.exp2((x * 1.4427).float())
    return (exponentials / exponentials.sum(dim=-1, keepdim=True)).to(x.dtype)
