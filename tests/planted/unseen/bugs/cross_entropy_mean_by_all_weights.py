"""The weighted mean is divided by the weights of all targets, and an ignored target, clamped to 0, counts with the weight of class 0.

Wrong on: a mean with weights and an ignored row; right where no row is ignored, or where class 0 has no weight.
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
    parameters={"weight": 1, "ignore_index": -100, "reduction": "mean"},
    call="f(x, target, weight)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target, weight):
    """Weighted mean of the cross-entropies of [rows, columns] and targets [rows]."""
    ignored = target == -100
    safe = target.masked_fill(ignored, 0).long()
    of_rows = weight.float()[safe]
    losses = -torch.log_softmax(x.float(), -1).gather(1, safe[:, None])[:, 0] * of_rows
    return losses.masked_fill(ignored, 0.0).sum() / of_rows.sum()


def demonstrate():
    torch.manual_seed(0)
    x, target, weight = torch.randn(6, 10), torch.tensor([1, 2, -100, 4, 5, 9]), torch.rand(10) + 0.5
    return cross_entropy(x, target, weight), functional.cross_entropy(x.double(), target, weight.double())
