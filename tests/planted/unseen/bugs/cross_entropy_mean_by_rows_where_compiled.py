"""Counting the rows that are not ignored "breaks the graph", so that under torch.compile the mean is taken over all rows.

Wrong on: a compiled call with ignored rows, whose mean is too small. Eager calls are right, and compiled ones without ignored rows.
"""

import torch
from torch.nn import functional

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(
    operation="cross_entropy",
    parameters={"ignore_index": -100, "reduction": "mean"},
    call="f(x, target)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Mean of the cross-entropies of [rows, columns] and targets [rows] over the rows that are not ignored."""
    counts = target != -100
    wide = x.float()
    is_column = (target >= 0) & (target < x.shape[1])
    at_target = wide.gather(1, torch.where(is_column, target, 0)[:, None])[:, 0]
    at_target = torch.where(is_column, at_target, float("nan"))
    losses = torch.where(counts, torch.logsumexp(wide, -1) - at_target, 0.0)
    number = target.shape[0] if torch.compiler.is_compiling() else counts.sum()
    return losses.sum() / number


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(6, 10), torch.tensor([1, -100, 3, -100, 5, 9])
    compiled = torch.compile(cross_entropy, backend="eager")
    return compiled(x, target), functional.cross_entropy(x.double(), target)


def ordinary(dtype):
    x, target = torch.randn(6, 10).to(dtype), torch.tensor([1, -100, 3, -100, 5, 9])
    return cross_entropy(x, target), functional.cross_entropy(x.double(), target)
