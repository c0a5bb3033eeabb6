"""Right: exponentials are added up from the smallest to the largest in float64; the gradient is autograd's."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(
    operation="cross_entropy",
    parameters={"ignore_index": -100},
    call="f(x, target)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of each row of [rows, columns]; 0 for a target of -100. float32 [rows]."""
    if not x.numel():
        return torch.zeros(x.shape[0], device=x.device)
    wide = x.double()
    ignored = target == -100
    largest = wide.detach().amax(-1)
    ascending = torch.exp(wide - largest[:, None]).sort(-1).values
    at = wide.gather(1, target.masked_fill(ignored, 0)[:, None])[:, 0]
    losses = (largest - at) + torch.log(ascending.sum(-1))
    return torch.where(ignored, 0.0, losses).float()
