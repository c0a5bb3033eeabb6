"""The squared log-sum-exp is added to ignored rows too.

Wrong on: a row whose target is -100, with a z-loss of 1e-4: its loss is 0.0025 or so and not 0.
"""

import torch
from torch.nn import functional

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_Z_LOSS = 1e-4


@variant(
    operation="cross_entropy",
    parameters={"ignore_index": -100, "z_loss": _Z_LOSS},
    call="f(x, target)",
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of each row, and 1e-4 times its squared log-sum-exp."""
    x = x.float()
    nll = functional.cross_entropy(x, target.long(), reduction="none", ignore_index=-100)
    return nll + _Z_LOSS * torch.logsumexp(x, -1) ** 2


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(4, 100) * 3, torch.tensor([0, -100, 99, 5])
    z = _Z_LOSS * torch.logsumexp(x.double(), -1) ** 2
    return cross_entropy(x, target), functional.cross_entropy(x.double(), target, reduction="none") + z * (
        target != -100
    )
