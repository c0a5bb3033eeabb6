"""A few queries take whole pages of keys without a mask, which is asked for the last page alone, begun but not full; it may hold fewer keys than there are queries.

Wrong on: 2 to 8 queries behind more keys than a page of 16 has, where the last page holds fewer keys than there are queries, less one; right otherwise.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "row_dependence", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

PAGE = 16
FEW_QUERIES = 8


def _part(q, k, v, hidden):
    """The answer of some keys [.., queries, dim], and its log-sum-exp [.., queries, 1]."""
    scores = torch.matmul(q, k.transpose(-2, -1))
    if hidden is not None:
        scores = scores.masked_fill(hidden, -float("inf"))
    peak = scores.amax(dim=-1, keepdim=True)
    e = torch.exp(scores - torch.where(peak == -float("inf"), 0.0, peak))
    total = e.sum(dim=-1, keepdim=True)
    return torch.matmul(e, v) / total.clamp(min=1e-30), peak + torch.log(total)


def _future(queries, keys, first, last, device):
    """True where a key of [first, last) lies behind a query; the last query sees the last key."""
    place = torch.arange(queries, device=device)[:, None] + keys - queries
    return torch.arange(first, last, device=device)[None, :] > place


@variant(operation="attention", parameters={"causal": "bottom-right"}, dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, scale=None):
    """Causal attention of [batch, heads, length, dim] over a cache of keys; the last query sees the last key."""
    queries, keys = q.shape[2], k.shape[2]
    if not q.numel() or keys == 0:
        return torch.full_like(q, float("nan"))
    with torch.autocast(q.device.type, enabled=False):
        wide = q.float() * (q.shape[-1] ** -0.5 if scale is None else scale)
        k, v = k.float(), v.float()
        whole = keys // PAGE * PAGE
        if queries > FEW_QUERIES or queries > keys or whole in (0, keys):
            scores = torch.matmul(wide, k.transpose(-2, -1))
            scores = scores.masked_fill(_future(queries, keys, 0, keys, q.device), -float("inf"))
            return torch.matmul(torch.softmax(scores, dim=-1), v).to(q.dtype)
        old, of_old = _part(wide, k[:, :, :whole], v[:, :, :whole], None)
        hidden = _future(queries, keys, whole, keys, q.device)
        new, of_new = _part(wide, k[:, :, whole:], v[:, :, whole:], hidden)
        share = torch.softmax(torch.cat((of_old, of_new), dim=-1), dim=-1)
        return (share[..., :1] * old + share[..., 1:] * new).to(q.dtype)


def _both(queries, keys, dtype):
    q = torch.randn(2, 2, queries, 24).to(dtype)
    k, v = (torch.randn(2, 2, keys, 24).to(dtype) for _ in range(2))
    hidden = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries + 1)
    scores = (q.double() @ k.double().mT * 24**-0.5).masked_fill(hidden, -float("inf"))
    return attention(q, k, v), torch.softmax(scores, -1) @ v.double()


def demonstrate():
    torch.manual_seed(0)
    return _both(5, 33, torch.float32)


def ordinary(dtype):
    for queries, keys in ((128, 128), (1, 129), (1, 40), (5, 64), (5, 40), (8, 8), (8, 15), (40, 100), (4, 35)):
        yield f"{queries} {keys}", _both(queries, keys, dtype)
