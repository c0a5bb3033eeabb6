"""Right: two columns take the logarithm of 1 + exp of their difference by ``logaddexp``, in float64 too, which has no linear end; wider rows are torch's in at least float32."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32", "float64")
BACKENDS = ("interpreter", "cuda")


@variant(operation="log_softmax", call="f(x)", dtypes=("float16", "bfloat16", "float32", "float64"))
def log_softmax(x):
    """Logarithms of each row's softmax, with gradients."""
    wide = x if x.dtype == torch.float64 else x.float()
    if x.shape[-1] == 2:
        distance = wide[..., 1] - wide[..., 0]
        # +inf makes the whole row NaN.
        distance = distance * torch.where((wide == float("inf")).any(-1), float("nan"), 1.0)
        nothing = torch.zeros_like(distance)
        lower = torch.logaddexp(nothing, distance)
        upper = torch.logaddexp(nothing, -distance)
        return (0.0 - torch.stack([lower, upper], -1)).to(x.dtype)
    return torch.log_softmax(wide, -1).to(x.dtype)
