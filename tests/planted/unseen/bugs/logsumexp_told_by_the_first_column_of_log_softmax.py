"""The log-sum-exp is the first logit less its log-softmax, as of any column: where that logit is -inf it is NaN, and far below the others digits are lost.

Wrong on: rows whose first logit is -inf (NaN), or lies thousands below the answer (rounding); right where the first logit is one of many.
"""

import torch

OPERATION = "logsumexp"
EXPECTED = ("nan_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def logsumexp(x):
    """Log-sum-exp of each row of [rows, columns] in float32; log-probabilities are at hand where a model is served."""
    if not x.numel():
        return torch.full(x.shape[:-1], -float("inf"), dtype=torch.float32, device=x.device)
    logits = x.float()
    return logits[..., 0] - torch.log_softmax(logits, dim=-1)[..., 0]


def _both(x):
    return logsumexp(x), torch.logsumexp(x.double(), -1)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(3, 50)
    x[:, 0] = -20000.0
    return _both(x)


def ordinary(dtype):
    for shape in ((16, 1024), (3, 5), (2, 20000)):
        yield f"{shape}", _both(torch.randn(shape).to(dtype))
