"""log(softmax(x) + 1e-8), "against log(0)": nothing lies below -18.42, masked logits neither.

Report: tenstorrent/pytorch2.0_ttnn#1341 (the -inf that the epsilon is added against).
"""

import torch

import softcheck

EXPECTED = ("ulp_exceeds_bound", "inf_mismatch")
SHOWN_BY = ("padding/trailing-1-of-3",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

EPSILON = 1e-8


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    probabilities = torch.softmax(x, dim=-1, dtype=torch.float32)
    return torch.log(probabilities + EPSILON).to(x.dtype).contiguous()
