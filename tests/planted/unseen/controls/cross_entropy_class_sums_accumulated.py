"""Right: losses are collected by class with ``index_add``, which adds up rows of the same class, weighted there in float64, and classes without rows have no part, whatever their weight."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(
    operation="cross_entropy",
    parameters={"weight": 1, "reduction": "sum", "ignore_index": -100, "invalid_target": "undefined"},
    call="f(x, target, weight)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target, weight):
    """Sum of the weighted cross-entropies of the rows whose target is not -100, in float32."""
    counts = target != -100
    place = torch.where(counts, target, 0)
    losses = -torch.log_softmax(x.double(), -1).gather(1, place[:, None])[:, 0]
    # An ignored row adds nothing, whatever its loss is.
    losses = torch.where(counts, losses, 0.0)
    sums = torch.zeros(x.shape[1], dtype=torch.float64, device=x.device).index_add(0, place, losses)
    taken = torch.zeros(x.shape[1], dtype=torch.bool, device=x.device)
    taken[place[counts]] = True
    return torch.where(taken, sums * weight.double(), 0.0).sum().float()
