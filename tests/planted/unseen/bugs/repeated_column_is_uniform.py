"""A column that is repeated by stride 0 gives 1 / n without a look at it: NaN and infinity disappear."""

import torch

EXPECTED = ("nan_mismatch", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(logits):
    count = logits.size(1)
    if count > 1 and logits.stride(1) == 0:
        # Every logit of a row is the same number.
        return torch.full(logits.shape, 1.0 / count, dtype=logits.dtype, device=logits.device)
    return torch.softmax(logits, dim=1)


def demonstrate():
    x = torch.tensor([[1.0], [float("nan")], [float("inf")]]).expand(3, 7)
    return softmax(x), torch.softmax(x.double(), -1)
