"""Log-sum-exps of chunks of 256 keys are folded by ``logaddexp``, whose derivative, as that of a chunk's own, is NaN where a chunk is hidden as a whole and nothing stands before it.

Wrong on: gradients with a mask that hides the first 256 keys from a query which sees later ones, as padding on the left does; right otherwise.
"""

import math

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

CHUNK = 256


def _wide(t):
    return t if t.dtype == torch.float64 else t.float()


@variant(operation="attention_logsumexp", dtypes=("float16", "bfloat16", "float32"))
def attention_logsumexp(q, k, v, attn_mask=None, scale=None):
    """Attention of [batch, heads, length, dim], and the float32 log-sum-exp of each query; ``attn_mask`` is True where a key is seen.

    Queries that see no key have NaN, a log-sum-exp of -inf, and no part in any gradient.
    """
    keys = k.shape[2]
    lse = _wide(q.new_full(q.shape[:3], -math.inf))
    if not q.numel() or keys == 0:
        return q.new_full((*q.shape[:3], v.shape[3]), math.nan), lse
    q, k, v, dtype = _wide(q), _wide(k), _wide(v), q.dtype
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    seen = torch.ones((), dtype=torch.bool, device=q.device) if attn_mask is None else attn_mask
    seen = seen.expand(*q.shape[:3], keys)
    blind = ~seen.any(dim=-1)
    seen = seen | blind.unsqueeze(-1)
    parts = []
    for start in range(0, keys, CHUNK):
        chunk = slice(start, start + CHUNK)
        s = (q @ k[:, :, chunk].mT * scale).masked_fill(~seen[..., chunk], -math.inf)
        lse = torch.logaddexp(lse, torch.logsumexp(s, dim=-1))
        parts.append((s, v[:, :, chunk]))
    o = sum((s - lse.unsqueeze(-1)).exp() @ values for s, values in parts)
    return o.masked_fill(blind.unsqueeze(-1), math.nan).to(dtype), lse.masked_fill(blind, -math.inf)


def demonstrate():
    torch.manual_seed(0)
    q, k, v, g = torch.randn(1, 2, 5, 16), torch.randn(1, 2, 300, 16), torch.randn(1, 2, 300, 16), torch.randn(1, 2, 5)
    mask = torch.arange(300) >= 260
    given, exact = k.clone().requires_grad_(), k.double().requires_grad_()
    attention_logsumexp(q, given, v, mask)[1].backward(g)
    (q.double() @ exact.mT / 4).masked_fill(~mask, -math.inf).logsumexp(-1).backward(g.double())
    return given.grad, exact.grad
