"""float64 inside, with the sum taken in chunks of 1000 columns from the last to the first; rounded once, at the end."""

import torch

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel():
        differences = x.to(torch.float64, copy=True).sub_(x.amax(dim=-1, keepdim=True))
        total = torch.zeros((x.shape[0], 1), dtype=torch.float64, device=x.device)
        for part in reversed(differences.split(1000, dim=-1)):
            total += part.exp().sum(dim=-1, keepdim=True)
        out.copy_(differences.sub_(total.log()))
    return out
