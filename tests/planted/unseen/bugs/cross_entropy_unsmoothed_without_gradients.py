"""A faster path, taken where gradients are off (torch.no_grad, inference_mode), forgets the label smoothing.

Wrong on: the loss of a validation under torch.no_grad(); right where gradients are on.
"""

import torch
from torch.nn import functional

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(
    operation="cross_entropy",
    parameters={"label_smoothing": 0.1},
    call="f(x, target)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of each row with a label smoothing of 0.1."""
    x, chosen = x.float(), target.long()
    if torch.is_grad_enabled():
        return functional.cross_entropy(x, chosen, reduction="none", label_smoothing=0.1)
    return torch.logsumexp(x - x.gather(1, chosen[:, None]), -1)


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(3, 20), torch.tensor([2, 9, 5])
    with torch.no_grad():
        got = cross_entropy(x, target)
    return got, functional.cross_entropy(x.double(), target, reduction="none", label_smoothing=0.1)
