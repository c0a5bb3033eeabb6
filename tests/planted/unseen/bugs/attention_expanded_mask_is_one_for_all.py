"""A mask that is expanded over heads, or over batches, is taken for one matrix that all of them share: the first one.

Wrong on: key padding, whose mask differs between batches and is expanded over heads and queries. One matrix for all, and masks in memory of their own, are right.
"""

import torch

from softcheck import variant

EXPECTED = ("masked_not_zero", "nan_mismatch", "out_of_range", "ulp_exceeds_bound", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(
    operation="attention", parameters={"masked": 1}, call="f(q, k, v, keep)", dtypes=("float16", "bfloat16", "float32")
)
def attention(q, k, v, keep):
    """Attention of [batch, heads, queries, head_dim] with a mask [batch, heads, queries, keys], True where a key is seen."""
    batch, heads = q.shape[:2]
    if keep.numel() and ((batch > 1 and keep.stride(0) == 0) or (heads > 1 and keep.stride(1) == 0)):
        # Expanded: the bias is made once, not for every head.
        keep = keep[0, 0]
    bias = torch.zeros(keep.shape, dtype=torch.float32, device=q.device).masked_fill_(~keep, -float("inf"))
    with torch.autocast(q.device.type, enabled=False):
        scores = (q.float() @ k.float().mT) * q.shape[-1] ** -0.5 + bias
        return (torch.softmax(scores, -1) @ v.float()).to(q.dtype)


def _exact(q, k, v, keep):
    scores = q.double() @ k.double().mT / q.shape[-1] ** 0.5
    return torch.softmax(scores.masked_fill(~keep, -float("inf")), -1) @ v.double()


def demonstrate():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 10, 16) for _ in range(3))
    lengths = torch.tensor([10, 4])
    keep = (torch.arange(10) < lengths[:, None])[:, None, None, :].expand(2, 2, 10, 10)
    return attention(q, k, v, keep), _exact(q, k, v, keep)


def ordinary(dtype):
    q, k, v = (torch.randn(2, 2, 33, 16, dtype=torch.float64).to(dtype) for _ in range(3))
    keep = torch.rand(2, 2, 33, 33) < 0.7
    return attention(q, k, v, keep), _exact(q, k, v, keep)
