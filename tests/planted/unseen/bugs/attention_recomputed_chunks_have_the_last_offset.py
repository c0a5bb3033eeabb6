"""Queries go in chunks that the backward computes again; the function that does so finds the chunk's offset when it is called, which is then the last one's.

Wrong on: gradients of causal attention of more than 128 queries; the answer, other gradients and up to 128 queries are right.
"""

import torch
from torch.utils.checkpoint import checkpoint

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

CHUNK = 128


@variant(operation="attention", dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, is_causal=False, scale=None):
    """Attention of [batch, heads, length, dim], with torch's causal mask; no more than 128 queries' scores are held."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    queries, keys, dtype = q.shape[2], k.shape[2], q.dtype
    # Gradients of keys and values are added up over the chunks in float32.
    q, k, v = (t.float() for t in (q, k, v))
    chunks = []
    for start in range(0, max(queries, 1), CHUNK):

        def attend(part, k, v):
            with torch.autocast(part.device.type, enabled=False):
                scores = torch.matmul(part, k.transpose(-2, -1)) * scale
                if is_causal:
                    query = start + torch.arange(part.shape[2], device=part.device)  # noqa: B023
                    future = torch.arange(keys, device=part.device)[None, :] > query[:, None]
                    scores = scores.masked_fill(future, -float("inf"))
                return torch.matmul(torch.softmax(scores, dim=-1), v)

        part = q[:, :, start : start + CHUNK]
        if torch.is_grad_enabled() and queries > CHUNK:
            chunks.append(checkpoint(attend, part, k, v, use_reentrant=False))
        else:
            chunks.append(attend(part, k, v))
    return torch.cat(chunks, dim=2).to(dtype)


def _exact(q, k, v, is_causal):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -float("inf"))
    return torch.softmax(scores, -1) @ v


def _gradients(q, k, v, is_causal):
    given = [t.clone().requires_grad_() for t in (q, k, v)]
    exact = [t.double().requires_grad_() for t in (q, k, v)]
    above = torch.randn(*q.shape[:3], v.shape[-1]).to(q.dtype)
    attention(*given, is_causal=is_causal).backward(above)
    _exact(*exact, is_causal).backward(above.double())
    return [(a.grad, b.grad) for a, b in zip(given, exact, strict=True)]


def demonstrate():
    torch.manual_seed(0)
    return _gradients(*(torch.randn(1, 2, 200, 16) for _ in range(3)), True)[0]


def ordinary(dtype):
    for queries, keys, is_causal in ((128, 128, True), (128, 128, False), (300, 200, False), (40, 300, True)):
        q = torch.randn(2, 4, queries, 64).to(dtype)
        k, v = (torch.randn(2, 4, keys, 64).to(dtype) for _ in range(2))
        yield from (("gradient", pair) for pair in _gradients(q, k, v, is_causal))
    q, k, v = (torch.randn(2, 4, 300, 64).to(dtype) for _ in range(3))
    yield "answer", (attention(q, k, v, True), _exact(q.double(), k.double(), v.double(), True))
