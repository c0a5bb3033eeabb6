"""The rows of a group of query heads are packed query by query for one product, and the log-sum-exps are not unpacked (the output is).

Wrong on: two query heads for each head of keys, and more than one query; right for decoding one query, and without groups.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(operation="attention_logsumexp", parameters={"groups": 2}, dtypes=("float16", "bfloat16", "float32"))
def attention_logsumexp(q, k, v):
    """Attention of [batch, heads, queries, head_dim] over fewer heads of keys, and the float32 log-sum-exp of each query."""
    with torch.autocast(q.device.type, enabled=False):
        batch, heads, queries, dim = q.shape
        shared = k.shape[1]
        groups = heads // shared
        packed = (
            q.view(batch, shared, groups, queries, dim)
            if q.is_contiguous()
            else q.reshape(batch, shared, groups, queries, dim)
        )
        packed = packed.transpose(2, 3).reshape(batch, shared, queries * groups, dim)
        scores = (packed.float() @ k.float().mT) * dim**-0.5
        lse = torch.logsumexp(scores, dim=-1)
        o = torch.exp(scores - lse[..., None]) @ v.float()
        o = o.view(batch, shared, queries, groups, dim).transpose(2, 3).reshape(q.shape)
        return o.to(q.dtype), lse.view(batch, heads, queries)


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, 6, 64), torch.randn(1, 2, 30, 64), torch.randn(1, 2, 30, 64)
    scores = q.double() @ k.double().repeat_interleave(2, 1).mT * 0.125
    return attention_logsumexp(q, k, v)[1], torch.logsumexp(scores, -1)
