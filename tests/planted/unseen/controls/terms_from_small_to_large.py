"""Each row is sorted, its exponentials are summed from the smallest to the largest and put back by the order's own order."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    # NaN comes last, where the maximum is read.
    values, order = x.detach().float().sort(1)
    e = torch.exp(values - values[:, -1:])
    y = (e / e.double().sum(1, keepdim=True)).to(x.dtype)
    return y.gather(1, order.argsort(1))
