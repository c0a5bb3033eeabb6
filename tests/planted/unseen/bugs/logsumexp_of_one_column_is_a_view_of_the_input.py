"""One column needs no exponentials, and is returned as it is: a view of the input, so that an answer changed in place changes the input.

Wrong on: a dimension of length 1; right otherwise.
"""

import torch

OPERATION = "logsumexp"
EXPECTED = ("output_reused", "input_modified")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def logsumexp(x, dim=-1, keepdim=False):
    """Log-sum-exp along a dimension, in float32 or wider."""
    if x.shape[dim] == 1:
        return x if keepdim else x.squeeze(dim)
    wide = x if x.dtype == torch.float64 else x.float()
    return torch.logsumexp(wide, dim, keepdim).to(x.dtype)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(4, 1)
    before = x.clone()
    logsumexp(x).mul_(2.0)
    return x, before.double()


def ordinary(dtype):
    for shape, dim in (((4, 100), -1), ((4, 1), -1), ((4, 100), 0), ((2, 30, 5), 1)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (logsumexp(x, dim), torch.logsumexp(x.double(), dim))
