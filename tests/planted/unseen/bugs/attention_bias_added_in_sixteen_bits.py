"""Scores are rounded to the bias's 16-bit type before the bias is added, and their sum once more.

Wrong on: an ALiBi bias in bfloat16 of scores of some 16; near enough for randn and usual tolerances. float32 is right.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@variant(operation="attention", parameters={"biased": 1}, call="f(q, k, v, bias)", dtypes=("float16", "bfloat16"))
def attention(q, k, v, bias):
    """Attention of [batch, heads, queries, head_dim] with a bias [batch, heads, queries, keys]."""
    with torch.autocast(q.device.type, enabled=False):
        scores = (q.float() @ k.float().mT) * q.shape[-1] ** -0.5
        scores = scores.to(bias.dtype) + bias
        return (torch.softmax(scores.float(), -1) @ v.float()).to(q.dtype)


def demonstrate():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, 48, 64).bfloat16() for _ in range(3))
    q = q * 8
    bias = (-0.3 * torch.arange(48.0)).bfloat16().expand(1, 1, 48, 48)
    scores = q.double() @ k.double().mT * 0.125 + bias.double()
    return attention(q, k, v, bias), torch.softmax(scores, -1) @ v.double()
