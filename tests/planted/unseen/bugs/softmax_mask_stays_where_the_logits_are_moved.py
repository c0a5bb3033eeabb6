"""The dimension that is summed over is moved to the end in the logits, and not in the mask: where both dimensions are as long, nobody notices.

Wrong on: a mask, another dimension than the last, and as many rows as columns (other lengths raise); right otherwise.
"""

import torch

OPERATION = "softmax"
EXPECTED = ("masked_not_zero", "ulp_exceeds_bound", "nan_mismatch", "raised")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x, mask=None, dim=-1):
    """Softmax along a dimension; a boolean ``mask``, True where a logit counts, is broadcast to the logits."""
    if not x.numel():
        return x.clone()
    moved = x.transpose(dim, -1)
    wide = moved if x.dtype == torch.float64 else moved.float()
    if mask is not None:
        wide = wide.masked_fill(~mask, float("-inf"))
    return torch.softmax(wide, -1).to(x.dtype).transpose(dim, -1)


def _both(x, mask, dim):
    return softmax(x, mask, dim), torch.softmax(x.double().masked_fill(~mask, -torch.inf), dim)


def demonstrate():
    torch.manual_seed(0)
    mask = torch.rand(20, 20) > 0.5
    mask[0] = True
    return _both(torch.randn(2, 20, 20), mask, 1)


def ordinary(dtype):
    for shape in ((4, 100), (2, 3, 33)):
        x, mask = torch.randn(shape).to(dtype), torch.rand(shape) > 0.5
        yield f"masked {shape}", _both(x, mask, -1)
        yield f"over 0 {shape}", (softmax(x, dim=0), torch.softmax(x.double(), 0))
    x = torch.randn(2, 3, 30, 30).to(dtype)
    yield "square", _both(x, torch.ones(30, 30).tril().bool(), -1)
