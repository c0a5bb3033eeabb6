"""Right: a masked attention whose weights are normalised before the second product, which is of float32 weights and values, 16 queries at a time."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(
    operation="attention", parameters={"masked": 1}, call="f(q, k, v, keep)", dtypes=("float16", "bfloat16", "float32")
)
def attention(q, k, v, keep):
    """Attention of [batch, heads, queries, head_dim] with a mask [batch, heads, queries, keys], True where a key is seen."""
    scale = q.shape[-1] ** -0.5
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    with torch.no_grad(), torch.autocast(q.device.type, enabled=False):
        for first in range(0, q.shape[2], 16):
            part = slice(first, first + 16)
            scores = (q[:, :, part].float() @ k.float().mT) * scale
            scores = torch.where(keep[:, :, part], scores, -float("inf"))
            o[:, :, part] = (torch.softmax(scores, dim=-1) @ v.float()).to(q.dtype)
    return o
