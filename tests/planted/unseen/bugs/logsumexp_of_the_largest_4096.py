"""Of wide rows the 4096 largest logits alone are summed, "since the rest adds nothing".

Wrong on: more than 4096 columns without a peak, such as the logits of an untrained head: 8192 equal logits lose log 2.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_KEPT = 4096


@variant(operation="logsumexp", dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """Log-sum-exp of each row; large vocabularies are dominated by few logits."""
    wide = x.float()
    if x.shape[-1] > _KEPT:
        wide = wide.topk(_KEPT, dim=-1, sorted=False).values
    return torch.logsumexp(wide, dim=-1).to(x.dtype)


def demonstrate():
    x = torch.randn(2, 9000)
    return logsumexp(x), torch.logsumexp(x.double(), -1)


def ordinary(dtype):
    x = torch.randn(16, 1024).to(dtype)
    yield "16x1024", (logsumexp(x), torch.logsumexp(x.double(), -1))
    x = (torch.randn(3, 9000) * 8).to(dtype)
    yield "peaked", (logsumexp(x), torch.logsumexp(x.double(), -1))
