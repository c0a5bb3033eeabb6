"""Online in float64 over blocks of 48 keys from the last block to the first, without blocks that no query sees.

Causal (top-left) with two query heads for one of keys; gradients come from autograd.
"""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(operation="attention", parameters={"causal": "top-left", "groups": 2}, call="f(q, k, v)")
def attention(q, k, v):
    _, heads, n_queries, dim = q.shape
    groups = heads // k.shape[1]
    n_keys = min(k.shape[2], n_queries)
    wide = q.double().unflatten(1, (k.shape[1], groups))
    k, v = k.double()[:, :, None], v.double()[:, :, None]
    query = torch.arange(n_queries, device=q.device)[:, None]
    m = torch.full((*wide.shape[:-1], 1), -float("inf"), device=q.device, dtype=torch.float64)
    total = torch.zeros_like(m)
    o = torch.zeros((*wide.shape[:-1], v.shape[-1]), device=q.device, dtype=torch.float64)
    with torch.autocast(q.device.type, enabled=False):
        for start in reversed(range(0, n_keys, 48)):
            end = min(start + 48, n_keys)
            s = wide @ k[..., start:end, :].mT * dim**-0.5
            hidden = torch.arange(start, end, device=q.device)[None, :] > query
            s = s.masked_fill(hidden, -float("inf"))
            new = torch.maximum(m, s.detach().amax(-1, keepdim=True))
            shift = torch.where(new == -float("inf"), 0.0, new)
            alpha, p = torch.exp(m - shift), torch.exp(s - shift)
            total = total * alpha + p.sum(-1, keepdim=True)
            o = o * alpha + p @ v[..., start:end, :]
            m = new
    return (o / total).flatten(1, 2).to(q.dtype)


def _exact(q, k, v):
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    hidden = torch.arange(k.shape[2])[None, :] > torch.arange(q.shape[2])[:, None]
    return torch.softmax((q @ k.mT * q.shape[-1] ** -0.5).masked_fill(hidden, -float("inf")), -1) @ v


def ordinary(dtype):
    for queries, keys, dim in ((100, 100, 64), (130, 40, 32), (40, 130, 64), (1, 1, 16), (96, 96, 80), (1, 50, 64)):
        q = torch.randn(2, 4, queries, dim).to(dtype)
        k, v = (torch.randn(2, 2, keys, dim).to(dtype) for _ in range(2))
        given = [t.clone().requires_grad_() for t in (q, k, v)]
        exact = [t.double().requires_grad_() for t in (q, k, v)]
        o, right = attention(*given), _exact(*exact)
        yield f"{queries}x{keys}x{dim}", (o, right)
        above = torch.randn(o.shape).to(dtype)
        o.backward(above)
        right.backward(above.double())
        for name, of_given, of_exact in zip("qkv", given, exact, strict=True):
            yield f"{queries}x{keys}x{dim} {name}", (of_given.grad, of_exact.grad)
