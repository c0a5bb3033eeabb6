"""Groups of 32 lanes are summed in float16, one add after the other, and the groups in float32: "32 terms can't lose much".

Wrong on: from 256 columns on, rows of many nearly equal logits, where each group loses digits to one side; ordinary rows stay within an ULP or two.
"""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")

GROUP = 32


def softmax(x):
    if x.shape[1] < 256 or x.numel() == 0:
        return torch.softmax(x, -1)
    wide = x.float()
    top = wide.amax(1, keepdim=True)
    e = torch.exp(wide - top)
    padded = torch.nn.functional.pad(e, (0, -x.shape[1] % GROUP)).half().unflatten(1, (-1, GROUP))
    groups = padded[..., 0]
    for lane in range(1, GROUP):
        groups = groups + padded[..., lane]
    return (e / groups.float().sum(1, keepdim=True)).to(x.dtype)


def demonstrate():
    x = torch.full((2, 512), -0.0117)
    x[:, 0] = 0.0
    x = x.half()
    return softmax(x), torch.softmax(x.double(), -1), x
