"""The answer's memory is kept for the next call with as many rows: that call overwrites the answer which the first call's user still holds.

Wrong on: a = logsumexp(x); b = logsumexp(y): a holds the answers for y. Each answer is right until the next call.
"""

import torch

from softcheck import variant

EXPECTED = ("output_reused", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_ANSWERS = {}


@variant(operation="logsumexp", call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """Log-sum-exp of each row."""
    if torch.is_grad_enabled() and x.requires_grad:
        return torch.logsumexp(x.float(), -1)
    key = x.shape[0], x.device
    if key not in _ANSWERS:
        _ANSWERS[key] = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    answer = _ANSWERS[key]
    answer.copy_(torch.logsumexp(x.float(), -1))
    return answer


def demonstrate():
    torch.manual_seed(0)
    x, y = torch.randn(3, 20), torch.randn(3, 20)
    first = logsumexp(x)
    logsumexp(y)
    return first, torch.logsumexp(x.double(), -1)
