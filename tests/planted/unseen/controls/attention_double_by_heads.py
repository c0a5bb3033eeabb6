"""Right: a causal attention of grouped queries in float64, one head of keys after the other, with the mask made by comparing places."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(
    operation="attention",
    parameters={"causal": "bottom-right", "groups": 2},
    call="f(q, k, v)",
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v):
    """Causal attention of [batch, heads, queries, head_dim] over half as many heads of keys."""
    *_, queries, dim = q.shape
    keys, groups = k.shape[2], 2
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    behind = (
        torch.arange(keys, device=q.device)[None, :] - torch.arange(queries, device=q.device)[:, None] > keys - queries
    )
    with torch.no_grad():
        for shared in range(k.shape[1]):
            some = slice(shared * groups, shared * groups + groups)
            scores = torch.einsum("bgid,bjd->bgij", q[:, some].double(), k[:, shared].double()) / dim**0.5
            scores = scores.masked_fill(behind, -float("inf"))
            o[:, some] = torch.einsum("bgij,bjd->bgid", torch.softmax(scores, -1), v[:, shared].double()).to(q.dtype)
    return o
