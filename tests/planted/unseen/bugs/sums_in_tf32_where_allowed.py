"""Rows are summed by a product with ones in float32; where the process allows TF32, as training scripts do, terms have ten bits.

Wrong on: any rows after ``torch.backends.cuda.matmul.allow_tf32 = True`` or ``torch.set_float32_matmul_precision("high")``.
"""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("cuda",)


def softmax(x):
    if x.numel() == 0 or x.dtype != torch.float32:
        return torch.softmax(x, -1)
    e = torch.exp(x - x.amax(1, keepdim=True))
    with torch.autocast(x.device.type, enabled=False):
        total = e @ torch.ones(x.shape[1], 8, device=x.device)
    return e / total[:, :1]
