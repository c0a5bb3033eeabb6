"""Of rows repeated by stride 0 one is computed and returned expanded: a caller that changes a row of the output changes all.

Wrong on: the softmax of ``bias.expand(rows, columns)``, as soon as the caller writes to the output, which raises or spoils other rows.
"""

import torch

EXPECTED = ("output_reused", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.shape[0] > 1 and x.stride(0) == 0 and x.numel():
        return torch.softmax(x[:1], dim=-1).expand(x.shape)
    return torch.softmax(x, dim=-1)


def demonstrate():
    x = torch.randn(1, 8).expand(4, 8)
    y = softmax(x)
    y[0].zero_()
    return y[1:], torch.softmax(x.double(), -1)[1:]
