"""A single query, as in decoding, takes a path of two products without a kernel, whose scores leave the first one in the input's 16 bits.

Wrong on: one query per head in 16 bits whose scores are large: 30 is rounded to 30 +- 0.06 in bfloat16, and its weight by 6 per cent. Right for several queries, for float32, and nearly so for scores around 1.
"""

import torch

from softcheck import variant

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@variant(
    operation="attention",
    parameters={"causal": "bottom-right"},
    call="f(q, k, v)",
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v):
    """Causal attention of [batch, heads, queries, head_dim], whose last query sees all keys."""
    queries, keys, scale = q.shape[-2], k.shape[-2], q.shape[-1] ** -0.5
    with torch.autocast(q.device.type, enabled=False):
        if queries == 1 and keys > 0:
            # The last query sees everything.
            weights = torch.softmax((q @ k.mT) * scale, -1, dtype=torch.float32)
            return (weights @ v.float()).to(q.dtype)
        scores = q.float() @ k.float().mT * scale
        hidden = torch.ones(queries, keys, dtype=torch.bool, device=q.device).triu(keys - queries + 1)
        return (torch.softmax(scores.masked_fill(hidden, -float("inf")), -1) @ v.float()).to(q.dtype)


def demonstrate():
    torch.manual_seed(0)
    q, k = (torch.randn(1, 4, 1, 64) * 4).bfloat16(), (torch.randn(1, 4, 200, 64) * 3).bfloat16()
    v = torch.randn(1, 4, 200, 64).bfloat16()
    return attention(q, k, v), torch.softmax(q.double() @ k.double().mT / 8, -1) @ v.double()
