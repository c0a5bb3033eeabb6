"""Two columns take a closed form, a sigmoid and its complement: the smaller probability has lost its digits in 1 - p."""

import torch

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def binary(x):
    first = torch.sigmoid(x[:, 0] - x[:, 1])
    return torch.stack((first, 1 - first), dim=1)


def softmax(x):
    return binary(x) if x.shape[1] == 2 else torch.softmax(x, dim=-1)


def demonstrate():
    x = torch.tensor([[20.0, 0.0], [5.0, -9.0]])
    return softmax(x), torch.softmax(x.double(), -1)
