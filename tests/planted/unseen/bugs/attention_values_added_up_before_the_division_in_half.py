"""Weights that are not yet divided by their sum multiply the values in float16: the product holds up to the number of keys times a value.

Wrong on: float16 with values above 65504 / keys under level scores, such as 512 keys and values near 200: infinite in place of 200.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "inf_mismatch", "nan_mismatch", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")


@variant(operation="attention", call="f(q, k, v)", dtypes=("float16",))
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim], with the division last, of [queries, head_dim] instead of [queries, keys]."""
    with torch.autocast(q.device.type, enabled=False):
        scores = (q.float() @ k.float().mT) * q.shape[-1] ** -0.5
        weights = torch.exp(scores - scores.amax(-1, keepdim=True).detach())
        return ((weights.to(v.dtype) @ v).float() / weights.sum(-1, keepdim=True)).to(q.dtype)


def _both(q, k, v):
    scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    return attention(q, k, v), scores.softmax(-1) @ v.double()


def demonstrate():
    q, k, v = (torch.randn(1, 2, 512, 64) for _ in range(3))
    return _both((q * 0.1).half(), k.half(), (v + 200).half())


def ordinary(dtype):
    yield "128", _both(*(torch.randn(2, 3, 128, 64).to(dtype) for _ in range(3)))
