"""The log-sum-exp is torch's own, which is +inf where a logit is, and so is the loss: the usual way to write a loss by hand."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")
OPERATION = "cross_entropy"


def cross_entropy(x, target):
    logits = x.float()
    return torch.logsumexp(logits, dim=-1) - logits.gather(-1, target[:, None])[:, 0]
