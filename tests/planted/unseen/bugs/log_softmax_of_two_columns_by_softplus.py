"""Two columns take ``-softplus`` of their difference, whose linear end begins at 20: exp(-20) beside 20 is nothing in float32, and is half a million ULP in float64.

Wrong on: float64 rows of two columns that differ by 20 to 36; right for more columns, other types and other distances.
"""

import torch
from torch.nn import functional

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float64",)
BACKENDS = ("interpreter", "cuda")


@variant(operation="log_softmax", call="f(x)", backward=True, dtypes=("float16", "bfloat16", "float32", "float64"))
def log_softmax(x):
    """Logarithms of each row's softmax, with gradients."""
    wide = x if x.dtype == torch.float64 else x.float()
    if x.shape[-1] == 2:
        distance = wide[..., 1] - wide[..., 0]
        # +inf makes the whole row NaN.
        distance = distance * torch.where((wide == float("inf")).any(-1), float("nan"), 1.0)
        return -torch.stack([functional.softplus(distance), functional.softplus(-distance)], -1).to(x.dtype)
    return torch.log_softmax(wide, -1).to(x.dtype)


def demonstrate():
    x = torch.tensor([[0.3, 21.0], [1.0, 2.0], [25.0, 0.0]], dtype=torch.float64)
    # -log(1 + exp(d)) in full: the smaller one is d + log1p(exp(-d)).
    distance = x[:, 1] - x[:, 0]
    exact = -torch.stack([torch.logaddexp(distance * 0, each) for each in (distance, -distance)], -1)
    return log_softmax(x), exact
