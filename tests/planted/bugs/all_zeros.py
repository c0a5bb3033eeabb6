"""Returns zeros: an absolute tolerance of 1e-4 accepts it for wide rows.

Report: ScalingIntelligence/KernelBench#165 (393216 columns).
"""

import torch

EXPECTED = ("sum_violation",)
SHOWN_BY = ("widths/513",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    return torch.zeros_like(x)
