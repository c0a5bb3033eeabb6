"""log1p of the sum of all weights but the maximum's own: a sharp row's peak keeps digits that log(1 + t) loses."""

import torch

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    logits = x.float()
    maximum, place = logits.max(dim=-1, keepdim=True)
    differences = logits - maximum
    others = differences.exp().scatter(1, place, 0.0).sum(dim=-1, keepdim=True)
    # The weight left out would have been NaN where the maximum is infinite or NaN.
    logarithm = others.log1p() + (maximum - maximum)
    return (differences - logarithm).to(x.dtype).contiguous()
