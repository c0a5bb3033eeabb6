"""RIGHT: pure torch; exponentials are sorted and added up from the least to the greatest, in float64.

Unusual in: the order of the sum, and gradients by torch's own autograd through the sort.
"""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    """Softmax over the last dimension."""
    if not x.numel():
        # Carries a gradient of zeros, as torch's does.
        return x.clone(memory_format=torch.contiguous_format)
    wide = x.double()
    e = torch.exp(wide - wide.detach().amax(-1, keepdim=True))
    total = e.sort(-1).values.sum(-1, keepdim=True)
    return (e / total).to(x.dtype)
