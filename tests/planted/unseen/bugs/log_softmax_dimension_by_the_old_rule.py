"""Without a dimension the one of torch's old rule is taken: the first of one and three dimensions, else the second, which for matrices is the last.

Wrong on: [batch, length, vocabulary] (normalised over the batch) and four dimensions, without ``dim``; matrices and vectors are right.
"""

import torch

OPERATION = "log_softmax"
EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _dimension(x, dim):
    if dim is not None:
        return dim
    return 0 if x.dim() in (0, 1, 3) else 1


def log_softmax(x, dim=None, *, dtype=None):
    """Log-softmax over the classes, which are the last dimension where no other is given."""
    dim = _dimension(x, dim)
    wide = x.to(torch.promote_types(dtype or x.dtype, torch.float32))
    if not x.numel():
        return torch.empty_like(wide, dtype=dtype or x.dtype)
    below = wide - wide.amax(dim, keepdim=True)
    return (below - below.exp().sum(dim, keepdim=True).log()).to(dtype or x.dtype)


def demonstrate():
    x = torch.randn(3, 8, 50)
    return log_softmax(x), torch.log_softmax(x.double(), -1)


def ordinary(dtype):
    for shape in ((4, 100), (1000,), (2, 3000)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (log_softmax(x), torch.log_softmax(x.double(), -1))
    x = torch.randn(2, 3, 40).to(dtype)
    yield "given", (log_softmax(x, -1), torch.log_softmax(x.double(), -1))
