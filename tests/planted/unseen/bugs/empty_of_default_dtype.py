"""An empty input gives an empty float32 tensor whatever the input's type."""

import torch

EXPECTED = ("wrong_dtype",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def softmax(inputs):
    if inputs.numel() == 0:
        return torch.empty(inputs.shape, device=inputs.device)
    shifted = inputs.float() - inputs.float().amax(-1, True)
    weights = shifted.exp()
    return (weights / weights.sum(-1, True)).type_as(inputs)


def demonstrate():
    x = torch.empty(0, 5, dtype=torch.float16)
    return softmax(x), torch.softmax(x.double(), -1), x
