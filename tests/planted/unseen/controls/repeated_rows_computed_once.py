"""Of rows that are repeated by stride 0 one is computed and copied to the others; repeated columns are computed as any."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.shape[0] > 1 and x.stride(0) == 0:
        return torch.softmax(x[:1], dim=1).repeat(x.shape[0], 1)
    return torch.softmax(x, dim=1)
