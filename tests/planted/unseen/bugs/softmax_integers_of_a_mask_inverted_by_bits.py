"""The mask is inverted by ``~`` before it is made boolean: of the integers 0 and 1 that gives -1 and -2, which both hide.

Wrong on: a mask of integers, as tokenizers give it; right for a boolean one.
"""

import torch

from softcheck import variant

FUNCTION = "masked_softmax"
EXPECTED = ("nan_mismatch", "ulp_exceeds_bound", "masked_not_zero", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@variant(operation="softmax", fully_masked="zero", call="f(x, keep)", dimensions=4)
def masked_softmax(x, mask, scale=1.0):
    """Softmax of scale * x where a mask of booleans or integers is not 0; 0 in a row of which nothing is kept."""
    if not x.numel():
        return torch.empty_like(x)
    hidden = (~mask).to(torch.bool)
    wide = x if x.dtype == torch.float64 else x.float()
    wide = (wide * scale).masked_fill(hidden, -torch.inf)
    top = wide.detach().amax(dim=-1, keepdim=True)
    e = (wide - torch.where(top == -torch.inf, 0.0, top)).exp()
    total = e.sum(dim=-1, keepdim=True)
    return (e / torch.where(total == 0, 1.0, total)).to(x.dtype)


def demonstrate():
    torch.manual_seed(0)
    x, mask = torch.randn(4, 30), torch.ones(4, 30, dtype=torch.int64)
    mask[:, 20:] = 0
    return masked_softmax(x, mask), torch.softmax(x.double().masked_fill(mask == 0, -torch.inf), -1)
