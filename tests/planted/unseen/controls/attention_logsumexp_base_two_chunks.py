"""Right: log-sum-exps of base 2 behind a causal mask, in chunks of 16 keys that logaddexp2 joins, in float64; -inf for a query without keys."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_LOG2_E = 1.4426950408889634


@variant(
    operation="attention_logsumexp",
    parameters={"causal": "bottom-right", "base": 2},
    call="f(q, k, v)",
    dtypes=("float16", "bfloat16", "float32"),
)
def attention_logsumexp(q, k, v):
    """Base 2 logarithms of the sums of exponentials of each query's scores, float32 [batch, heads, queries]."""
    queries, keys = q.shape[2], k.shape[2]
    with torch.no_grad():
        scores = (q.double() @ k.double().mT) * (q.shape[-1] ** -0.5 * _LOG2_E)
        seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
        scores = torch.where(seen, scores, -float("inf"))
        found = torch.full(q.shape[:3], -float("inf"), dtype=torch.float64, device=q.device)
        for chunk in scores.split(16, dim=-1):
            for column in chunk.unbind(-1):
                found = torch.logaddexp2(found, column)
    return found.float()
