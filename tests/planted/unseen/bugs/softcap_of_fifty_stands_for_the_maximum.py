"""Logits that are capped at 50 are shifted by 50, "they can't be larger", so that no maximum is looked for: a row of low logits has exponentials of exp(-100).

Wrong on: rows all of whose logits are below about -50: their exponentials are subnormal, of a few bits or 0. Right wherever one logit of a row is above -45.
"""

import torch

from softcheck import variant

EXPECTED = ("nan_mismatch", "sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_CAP = 50.0


@variant(parameters={"softcap": _CAP}, call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def softmax(x, dim=-1):
    """Softmax of 50 tanh(x / 50) along a dimension."""
    wide = x.float()
    capped = (_CAP * torch.tanh(wide / _CAP)).masked_fill(wide == -float("inf"), -float("inf"))
    powers = torch.exp(capped - _CAP)
    return (powers / powers.sum(dim, keepdim=True)).to(x.dtype)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(4, 30) * 20 - 200
    return softmax(x), torch.softmax(_CAP * torch.tanh(x.double() / _CAP), -1)
