"""Right: columns that the mask leaves visible are sorted to the front of their row, normalised there, in float64, and put back where they were."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(call="f(x, mask)", dtypes=("float16", "bfloat16", "float32"))
def softmax(x, mask):
    """Softmax of each row without the columns where ``mask`` is True; a row without columns to see is NaN."""
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    order = torch.argsort(mask.to(torch.uint8), dim=-1, stable=True)
    visible = (~mask).sum(-1, keepdim=True)
    place = torch.arange(x.shape[-1], device=x.device)
    front = torch.where(place < visible, x.gather(-1, order).double(), -float("inf"))
    weights = torch.exp(front - front.amax(-1, keepdim=True))
    packed = weights / weights.sum(-1, keepdim=True)
    return torch.empty_like(packed).scatter_(-1, order, packed).to(x.dtype)
