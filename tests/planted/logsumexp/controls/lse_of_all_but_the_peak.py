"""log1p of the sum without one of the largest: a sharp row's answer keeps digits that log(1 + t) loses."""

import torch

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@softcheck.variant(operation="logsumexp")
def logsumexp(x):
    if not x.numel():
        return torch.full(x.shape[:1], -torch.inf, device=x.device)
    maximum, place = x.float().max(-1)
    differences = x.float() - torch.where(maximum.isinf(), 0.0, maximum)[:, None]
    others = differences.exp().scatter(-1, place[:, None], 0.0).sum(-1)
    return torch.where(maximum.isinf(), maximum + others, maximum + others.log1p())
