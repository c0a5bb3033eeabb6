"""Right: one product with a matrix of shares (weights, smoothing and targets together) of log-probabilities in float64, summed over the rows that count."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(
    operation="cross_entropy",
    parameters={"weight": 1, "label_smoothing": 0.1, "ignore_index": -100, "reduction": "sum"},
    call="f(x, target, weight)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target, weight):
    """Sum of the weighted and smoothed cross-entropies of [rows, columns] and targets [rows]."""
    with torch.no_grad():
        counts = target != -100
        x, target, weight = x[counts].double(), target[counts], weight.double()
        columns = x.shape[1]
        logarithms = torch.log_softmax(x, -1)
        of_target = logarithms.gather(1, target[:, None])[:, 0] * weight[target]
        of_all = (logarithms * weight).sum(-1)
        return -(0.9 * of_target + 0.1 / columns * of_all).sum().float()
