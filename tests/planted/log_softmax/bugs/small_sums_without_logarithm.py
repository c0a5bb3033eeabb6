"""t stands in for log(1 + t) below t = 0.02, where it is up to 1 % too large: the peak of a sharp row is wrong.

From experience: a first-order shortcut whose threshold suits a tolerance of 1e-3.
"""

import torch

import softcheck

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("widths/2",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

SMALL = 0.02


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    logits = x.float()
    maximum, place = logits.max(dim=-1, keepdim=True)
    differences = logits - maximum
    others = differences.exp().scatter(1, place, 0.0).sum(dim=-1, keepdim=True)
    # An infinite maximum makes NaN of its row.
    others += maximum - maximum
    logarithm = torch.where(others < SMALL, others, others.log1p())
    return (differences - logarithm).to(x.dtype).contiguous()
