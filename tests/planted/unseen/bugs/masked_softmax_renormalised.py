"""Hidden logits are multiplied by 0, take part in the softmax, and are taken out by a second normalisation, as AllenNLP's masked_softmax had it.

Wrong on: rows whose visible logits lie 88 and more below 0: the hidden zeros take all of the mass, and 0 is left. Infinities behind the mask give NaN.
"""

import torch

from softcheck import variant

EXPECTED = ("sum_violation", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(fully_masked="zero", call="f(x, keep)")
def softmax(vector, mask):
    """Softmax of what the mask keeps; rows of which it keeps nothing are 0."""
    weights = mask.float()
    result = torch.softmax(vector.float() * weights, dim=-1) * weights
    return (result / (result.sum(-1, keepdim=True) + 1e-13)).to(vector.dtype)


def _both(x, keep):
    return softmax(x, keep), torch.softmax(x.double().masked_fill(~keep, float("-inf")), -1)


def demonstrate():
    keep = torch.arange(60) < 40
    return _both(torch.randn(4, 60) - 120, keep.expand(4, 60))


def ordinary(dtype):
    keep = torch.rand(16, 1024) < 0.7
    yield "16x1024", _both(torch.randn(16, 1024).to(dtype), keep)
