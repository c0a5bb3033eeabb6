"""Two columns are two sigmoids of opposite differences in float64: no complement, so that small probabilities keep their digits."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.shape[1] != 2 or x.shape[0] == 0:
        return torch.softmax(x, dim=1)
    wide = x.double()
    difference = wide[:, :1] - wide[:, 1:]
    pair = torch.cat((difference, -difference), 1)
    # 1 / (1 + exp(-d)), which is 0 where exp overflows; +inf - finite is no NaN, though softmax is.
    y = 1.0 / (1.0 + torch.exp(-pair))
    undefined = (wide == float("inf")).any(1, keepdim=True) | wide.isnan().any(1, keepdim=True)
    return torch.where(undefined, torch.full_like(y, float("nan")), y).to(x.dtype)
