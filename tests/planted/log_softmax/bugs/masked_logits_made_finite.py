"""Masked logits are raised from -inf to -10000 "against NaN": their result is finite, and a fully masked row -log N.

Reports: lattice#361, flashinfer-ai/flashinfer#4267, NVIDIA/apex#1390.
"""

import torch

import softcheck

EXPECTED = ("inf_mismatch", "nan_mismatch")
SHOWN_BY = ("padding/leading-1-of-3",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

MASKED = -10000.0


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    logits = x.float()
    logits = logits.masked_fill(logits == -torch.inf, MASKED)
    if not x.numel():
        return logits.to(x.dtype).contiguous()
    differences = logits - logits.amax(dim=-1, keepdim=True)
    return (differences - differences.exp().sum(dim=-1, keepdim=True).log()).to(x.dtype).contiguous()
