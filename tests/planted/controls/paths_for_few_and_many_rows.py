"""One row, up to 64 rows and more take paths of their own, and transposed matrices another: all of them right."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.shape[0] == 1 and x.shape[1]:
        return torch.softmax(x.reshape(-1), dim=0)[None]
    if x.numel() and x.stride(0) == 1 and x.shape[0] > 1:
        return torch.softmax(x.t(), dim=0).t().contiguous()
    if x.shape[0] > 64:
        return torch.cat([torch.softmax(part, dim=-1) for part in x.split(32)])
    return torch.softmax(x, dim=-1)
