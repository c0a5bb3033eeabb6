"""RIGHT: log_softmax by log1p of the sum without one maximum, the first; others equal to it are counted.

Unusual in: a near-certain row keeps all digits of its small loss, where log(1 + 1e-9) in float32 is 0.
"""

import torch

import softcheck

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    """Log-softmax over the last dimension."""
    if not x.numel():
        return x.clone(memory_format=torch.contiguous_format)
    wide = x.float()
    place = wide.detach().argmax(-1, keepdim=True)
    below = wide - wide.detach().gather(-1, place)
    e = torch.exp(below)
    # The first maximum's own term less 1: 0, but NaN where it is infinite or NaN, and with all its derivatives.
    others = torch.where(torch.arange(x.shape[-1], device=x.device) == place, torch.expm1(below), e).sum(
        -1, keepdim=True
    )
    return (below - torch.log1p(others)).to(x.dtype)
