"""The maximum that is subtracted is that of all columns, the hidden ones included: a hidden logit far above the others lets all of their exponentials underflow.

Wrong on: a hidden logit of 200 (or finfo.max, or NaN) beside visible ones of 0; right for randn behind the mask.
"""

import torch

from softcheck import variant

EXPECTED = ("inf_mismatch", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(operation="log_softmax", call="f(x, mask)", dtypes=("float16", "bfloat16", "float32"))
def log_softmax(x, mask):
    """Log-softmax of each row without the columns where ``mask`` is True, which get -inf."""
    if not x.numel():
        return torch.empty_like(x)
    below = x.float() - x.float().amax(-1, keepdim=True)
    below = below.masked_fill(mask, -float("inf"))
    return (below - torch.log(torch.exp(below).sum(-1, keepdim=True))).to(x.dtype)


def demonstrate():
    torch.manual_seed(0)
    x, mask = torch.randn(3, 20), torch.zeros(3, 20, dtype=torch.bool)
    x[1, 4], mask[1, 4] = 200.0, True
    return log_softmax(x, mask), torch.log_softmax(x.double().masked_fill(mask, -float("inf")), -1)
