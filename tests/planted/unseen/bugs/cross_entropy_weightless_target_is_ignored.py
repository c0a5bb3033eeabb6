"""Rows whose target has the class weight 0 are taken for ignored, though the smoothed share of the other classes is still theirs.

Wrong on: label smoothing with a class of weight 0 (a "no object" class): its rows lose their smoothing term. Weights above 0 are right.
"""

import torch
from torch.nn import functional

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_SMOOTHING = 0.1


@variant(
    operation="cross_entropy",
    parameters={"weight": 1, "label_smoothing": _SMOOTHING, "ignore_index": -100, "reduction": "sum"},
    call="f(x, target, weight)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target, weight):
    """Sum of the weighted and smoothed cross-entropies of [rows, columns] and targets [rows], float32."""
    is_column = (target >= 0) & (target < x.shape[1])
    place = torch.where(is_column, target, 0)
    of_target = torch.where(is_column, weight.float()[place], float("nan"))
    # Rows without a weight add nothing, and needn't be read.
    counts = (target != -100) & (of_target != 0)
    x, place, of_target = x[counts], place[counts], of_target[counts]
    logarithms = torch.log_softmax(x.float(), -1)
    picked = of_target * logarithms.gather(1, place[:, None])[:, 0]
    smoothed = (logarithms * weight.float()).sum(-1) / x.shape[1]
    return -((1.0 - _SMOOTHING) * picked + _SMOOTHING * smoothed).sum()


def _both(dtype, weight):
    x, target = torch.randn(6, 10).to(dtype), torch.tensor([1, 2, -100, 4, 5, 9])
    right = functional.cross_entropy(x.double(), target, weight.double(), label_smoothing=_SMOOTHING, reduction="sum")
    return cross_entropy(x, target, weight), right


def demonstrate():
    torch.manual_seed(0)
    weight = torch.rand(10) + 0.5
    weight[4] = 0.0
    return _both(torch.float32, weight)


def ordinary(dtype):
    return _both(dtype, torch.rand(10) + 0.5)
