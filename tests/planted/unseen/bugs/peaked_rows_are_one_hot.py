"""A row whose second logit lies more than 17 below the first is taken for one-hot, since 1 + exp(-17) is 1 in float32."""

import torch

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.shape[1] < 2 or x.shape[0] == 0:
        return torch.softmax(x, dim=1)
    top = x.topk(2, dim=1)
    gap = top.values[:, 0] - top.values[:, 1]
    y = torch.softmax(x, dim=1)
    peaked = (gap > 17.0) & torch.isfinite(gap)
    one_hot = torch.zeros_like(y).scatter_(1, top.indices[:, :1], 1.0)
    return torch.where(peaked[:, None], one_hot, y)


def demonstrate():
    x = torch.tensor([[20.0, 0.0, 1.0]])
    return softmax(x), torch.softmax(x.double(), -1)
