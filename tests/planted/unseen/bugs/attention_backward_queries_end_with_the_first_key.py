"""The backward goes through tiles of 32 keys and takes, for each, the queries that see it; the last of them is that which sees the tile's first key, and later keys are seen by later ones.

Wrong on: gradients of keys and values with more queries than the window of 40 holds; the output and the gradient of the queries are right, and all are for up to 40 keys.
"""

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_WINDOW = 40
_TILE = 32


def _weights(q, k, first_query, first_key, offset):
    """Scores of some queries and keys, -inf where the window doesn't reach."""
    with torch.autocast(q.device.type, enabled=False):
        scores = q.float() @ k.float().mT * q.shape[-1] ** -0.5
        place = torch.arange(q.shape[-2], device=q.device)[:, None] + first_query + offset
        key = torch.arange(k.shape[-2], device=q.device)[None, :] + first_key
        return scores.masked_fill((key > place) | (key <= place - _WINDOW), -float("inf"))


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        scores = _weights(q, k, 0, 0, k.shape[-2] - q.shape[-2])
        lse = torch.logsumexp(scores, -1)
        with torch.autocast(q.device.type, enabled=False):
            o = torch.exp(scores - lse[..., None]) @ v.float()
        ctx.save_for_backward(q, k, v, o, lse)
        return o.to(q.dtype)

    @staticmethod
    def backward(ctx, of_o):
        q, k, v, o, lse = ctx.saved_tensors
        queries, keys, scale = q.shape[-2], k.shape[-2], q.shape[-1] ** -0.5
        offset = keys - queries
        of_o = of_o.float()
        mean = (of_o * o).sum(-1, keepdim=True)
        with torch.autocast(q.device.type, enabled=False):
            p = torch.exp(_weights(q, k, 0, 0, offset) - lse[..., None])
            of_q = (p * (of_o @ v.float().mT - mean) @ k.float() * scale).to(q.dtype)
            of_k, of_v = torch.zeros_like(k), torch.zeros_like(v)
        for start in range(0, keys, _TILE):
            tile = slice(start, min(start + _TILE, keys))
            # Queries from the one beside the first key to the last whose window reaches it.
            begin = min(max(start - offset, 0), queries)
            end = min(max(start - offset + _WINDOW, 0), queries)
            seeing = slice(begin, end)
            some, of_some = q[..., seeing, :], of_o[..., seeing, :]
            p = torch.exp(_weights(some, k[..., tile, :], begin, start, offset) - lse[..., seeing, None])
            with torch.autocast(q.device.type, enabled=False):
                of_scores = p * (of_some @ v[..., tile, :].float().mT - mean[..., seeing, :])
                of_k[..., tile, :] = (of_scores.mT @ some.float() * scale).to(k.dtype)
                of_v[..., tile, :] = (p.mT @ of_some).to(v.dtype)
        return of_q, of_k, of_v


@variant(
    operation="attention",
    parameters={"causal": "bottom-right", "window": _WINDOW},
    call="f(q, k, v)",
    backward=True,
    dtypes=("float16", "bfloat16", "float32"),
)
def attention(q, k, v):
    """Causal attention of [batch, heads, queries, head_dim] over the last 40 keys of each query, with a backward."""
    return _Attention.apply(q, k, v)


def demonstrate():
    torch.manual_seed(0)
    q, k, w = torch.randn(3, 1, 2, 100, 16)
    v = torch.randn(1, 2, 100, 16, requires_grad=True)
    attention(q, k, v).backward(w)
    exact = v.detach().double().requires_grad_()
    scores = _weights(q, k, 0, 0, 0).double()
    (torch.softmax(scores, -1) @ exact).backward(w.double())
    return v.grad, exact.grad
