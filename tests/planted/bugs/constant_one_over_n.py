"""Returns 1/N whatever the logits: tests with small logits and absolute tolerances pass it from N = 1024 on.

Report: the class of ScalingIntelligence/KernelBench#165.
"""

import torch

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("normal/scale-0.1-4096", "widths/513")
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    return torch.full_like(x, 1.0 / max(1, x.shape[-1]))
