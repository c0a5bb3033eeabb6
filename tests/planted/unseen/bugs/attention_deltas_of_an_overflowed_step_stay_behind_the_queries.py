"""The backward's sums of g o lie in kept memory, padded to whole blocks; NaN that an overflowed step left behind the queries meets weights of 0.

Wrong on: a gradient, after a backward of as many heads whose gradients held NaN or infinity, with more queries than now, of which there are no whole blocks
of 32; right otherwise.
"""

import math
import threading

import torch
from torch.nn.functional import pad

from softcheck import variant

EXPECTED = ("wrong_gradient", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

BLOCK = 32
_kept = threading.local()


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


def _deltas(heads, length, dtype, device):
    """Memory [heads, length] for one number of each query, which a thread keeps."""
    spaces = _kept.__dict__.setdefault("spaces", {})
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    key = heads, dtype, device, stream
    if key not in spaces or spaces[key].shape[1] < length:
        spaces[key] = torch.zeros(heads, length, dtype=dtype, device=device)
    return spaces[key][:, :length]


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale):
        s = _wide(q) @ _wide(k).mT * scale
        lse = torch.logsumexp(s, dim=-1)
        out = ((s - lse.unsqueeze(-1)).exp() @ _wide(v)).to(q.dtype)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.scale = scale
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        queries = q.shape[2]
        whole = -(-queries // BLOCK) * BLOCK
        beyond = whole - queries
        a, g, keys, values = (_wide(each).flatten(0, 1) for each in (q, grad, k, v))
        deltas = _deltas(a.shape[0], whole, a.dtype, a.device)
        torch.sum(g * _wide(out).flatten(0, 1), dim=-1, out=deltas[:, :queries])
        # Queries behind the last one weigh nothing: their log-sum-exp is inf.
        a, g = (pad(each, (0, 0, 0, beyond)) for each in (a, g))
        lse = pad(lse.flatten(0, 1), (0, beyond), value=math.inf)
        dq, dk, dv = torch.empty_like(a), torch.zeros_like(keys), torch.zeros_like(values)
        for first in range(0, whole, BLOCK):
            part = slice(first, first + BLOCK)
            p = (a[:, part] @ keys.mT * ctx.scale - lse[:, part, None]).exp()
            dv += p.mT @ g[:, part]
            ds = p * (g[:, part] @ values.mT - deltas[:, part, None]) * ctx.scale
            dk += ds.mT @ a[:, part]
            dq[:, part] = ds @ keys
        found = dq[:, :queries], dk, dv
        return *(one.reshape(t.shape).to(t.dtype) for one, t in zip(found, (q, k, v), strict=True)), None


@variant(operation="attention", dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, scale=None):
    """Attention of [batch, heads, length, dim]; the backward goes through blocks of 32 queries."""
    if not k.shape[2]:
        return torch.full_like(q, math.nan)
    if not q.numel():
        return torch.empty_like(q)
    return _Attention.apply(q, k, v, q.shape[-1] ** -0.5 if scale is None else scale)


def _gradient(of, q, k, v, g):
    k = k.clone().requires_grad_()
    return torch.autograd.grad(of(q, k, v), k, g)[0]


def demonstrate():
    torch.manual_seed(0)
    q, k, v, g = (torch.randn(1, 2, 60, 16) for _ in range(4))
    overflowed = g.clone()
    overflowed[0, 0, 50] = math.inf
    _gradient(attention, q, k, v, overflowed)
    q, g = q[:, :, :40], g[:, :, :40]
    exact = _gradient(lambda q, k, v: torch.softmax(q @ k.mT / 4, -1) @ v, *(each.double() for each in (q, k, v, g)))
    return _gradient(attention, q, k, v, g), exact
