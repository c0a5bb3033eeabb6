"""The target's logit is picked where the column's number equals the target, both in the logits' dtype: numbers above 256 (bfloat16) or 2048 (float16) are rounded, and several columns are picked or none.

Wrong on: 600 columns in bfloat16 and a target of 301; right in float32, and for the columns below 256 whatever the width.
"""

import torch
from torch.nn import functional

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@variant(operation="cross_entropy", call="f(x, target)", dtypes=("float16", "bfloat16", "float32"))
def cross_entropy(x, target):
    """Cross-entropy of each row."""
    column = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)
    hot = column[None, :] == target[:, None].to(x.dtype)
    logarithms = torch.log_softmax(x.float(), -1)
    return -torch.where(hot, logarithms, 0.0).sum(-1)


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(3, 600).bfloat16(), torch.tensor([20, 301, 599])
    return cross_entropy(x, target), functional.cross_entropy(x.double(), target, reduction="none")
