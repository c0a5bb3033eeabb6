"""The maximum is not subtracted where no logit of the tensor is large, which saves a pass: rows far below 0 underflow.

Wrong on: a row of logits below about -90, as long as no logit of any row is above 68; right otherwise.
"""

import math

import torch

from softcheck import variant

FUNCTION = "logsumexp2"
EXPECTED = ("inf_mismatch", "ulp_exceeds_bound", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

LOG2E = math.log2(math.e)


def _largest_exponent(dtype):
    return math.log(torch.finfo(dtype).max) - 20


def _shifted(wide):
    top = wide.amax(dim=-1, keepdim=True)
    base = torch.where(top.isinf(), 0.0, top)
    return (base * LOG2E + (wide - base).exp().sum(dim=-1, keepdim=True).log2())[..., 0]


@variant(operation="logsumexp", parameters={"base": 2.0}, dtypes=["float16", "bfloat16", "float32"])
def logsumexp2(x):
    """log2 of the sum of exponentials over the last dimension, as attention takes it where it merges parts."""
    wide = x if x.dtype == torch.float64 else x.float()
    if x.shape[-1] == 0:
        return x.new_full(x.shape[:-1], -math.inf)
    if not x.numel():
        return x.new_empty(x.shape[:-1])
    if wide.amax() < _largest_exponent(wide.dtype):
        return wide.exp().sum(dim=-1).log2().to(x.dtype)
    return _shifted(wide).to(x.dtype)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(4, 100) - 200
    return logsumexp2(x), torch.logsumexp(x.double(), -1) / math.log(2)
