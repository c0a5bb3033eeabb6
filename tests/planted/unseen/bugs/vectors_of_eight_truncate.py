"""Results are cut to bfloat16, not rounded, where eight columns make a vector and rows are many: up to one ULP, to one side."""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16",)
BACKENDS = ("interpreter", "cuda")


def pack(values):
    """Upper halves of float32."""
    return (values.contiguous().view(torch.int32) >> 16).to(torch.int16).view(torch.bfloat16)


def softmax(x):
    probabilities = torch.softmax(x.float(), dim=-1)
    if x.shape[1] and x.shape[1] % 8 == 0 and x.shape[0] > 64:
        return pack(probabilities)
    return probabilities.bfloat16()


def demonstrate():
    x = torch.randn(80, 64).bfloat16()
    return softmax(x), torch.softmax(x.double(), -1), x
