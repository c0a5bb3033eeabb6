"""Right: queries are taken in chunks of 64, each with the keys up to its own end, and the causal mask of a chunk counts from its first query's place."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_CHUNK = 64


@variant(
    operation="attention",
    parameters={"causal": "top-left"},
    call="f(q, k, v)",
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v):
    """Causal attention of [batch, heads, queries, head_dim], whose first query sees the first key."""
    queries, keys, scale = q.shape[-2], k.shape[-2], q.shape[-1] ** -0.5
    # In double and before the loop, so that gradients of all chunks are added up in double, too.
    wide_q, wide_k, wide_v = q.double(), k.double(), v.double()
    with torch.autocast(q.device.type, enabled=False):
        # No queries, so that there is always a part that carries gradients.
        parts = [(wide_q[..., :0, :] @ wide_k.mT @ wide_v).to(q.dtype)]
        for start in range(0, queries, _CHUNK):
            end = min(start + _CHUNK, queries)
            seen = min(end, keys)
            scores = wide_q[..., start:end, :] @ wide_k[..., :seen, :].mT * scale
            # Query start + i sees the keys up to its own number.
            hidden = torch.ones(end - start, seen, dtype=torch.bool, device=q.device).triu(start + 1)
            weights = torch.softmax(scores.masked_fill(hidden, -float("inf")), -1)
            parts.append((weights @ wide_v[..., :seen, :]).to(q.dtype))
    return torch.cat(parts, -2)
