"""Keys are transposed to float32 once and kept on the tensor of keys; whoever writes new keys into that tensor gets the old ones' scores.

Wrong on: a second call with the same tensor of keys after k.copy_(...), as with a static cache of keys; the first call is right, and so is a new tensor.
"""

import torch

from softcheck import variant

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _prepared(k):
    if k.requires_grad:
        return k.float().mT
    if not hasattr(k, "_prepared_for_scores"):
        k._prepared_for_scores = k.float().mT.contiguous()
    return k._prepared_for_scores


@variant(operation="attention", call="f(q, k, v)", dtypes=("float16", "bfloat16", "float32"))
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim] over [batch, heads, keys, head_dim]."""
    with torch.autocast(q.device.type, enabled=False):
        scores = (q.float() @ _prepared(k)) * q.shape[-1] ** -0.5
        return (torch.softmax(scores, -1) @ v.float()).to(q.dtype)


def demonstrate():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, 16, 64) for _ in range(3))
    attention(q, k, v)
    k.copy_(torch.randn(1, 1, 16, 64))
    return attention(q, k, v), torch.softmax(q.double() @ k.double().mT * 0.125, -1) @ v.double()
