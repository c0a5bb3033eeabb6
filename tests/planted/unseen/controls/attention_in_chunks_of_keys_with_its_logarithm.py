"""A causal attention by default, in chunks of 96 keys, that returns its output and the log-sum-exp of each query as a tuple."""

import torch

OPERATION = "attention"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def attention(q, k, v, *, is_causal=True, softmax_scale=None, chunk=96):
    """(out, lse) of [batch, heads, length, head_dim]; a causal query sees the keys up to its own number, counted from the first."""
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    batch, heads, queries, _ = q.shape
    with torch.autocast(q.device.type, enabled=False):
        wide = q.float() * scale
        number = torch.arange(queries, device=q.device)[:, None]
        maximum = wide.new_full((batch, heads, queries, 1), float("-inf"))
        total, out = torch.zeros_like(maximum), wide.new_zeros(batch, heads, queries, v.shape[-1])
        for start in range(0, k.shape[2], chunk):
            if is_causal and start >= queries:
                break
            part = slice(start, start + chunk)
            scores = wide @ k[:, :, part].float().mT
            if is_causal:
                key = torch.arange(start, start + scores.shape[-1], device=q.device)
                scores = scores.masked_fill(key > number, float("-inf"))
            larger = torch.maximum(maximum, scores.detach().amax(-1, keepdim=True))
            shift = larger.masked_fill(larger == float("-inf"), 0.0)
            weights, shrink = torch.exp(scores - shift), torch.exp(maximum - shift)
            total = total * shrink + weights.sum(-1, keepdim=True)
            out = out * shrink + weights @ v[:, :, part].float()
            maximum = larger
        lse = torch.where(maximum == float("inf"), maximum, maximum + total.log())
        return (out / total).to(q.dtype), lse[..., 0]


def ordinary(dtype):
    for queries, keys, width, causal in (
        (5, 5, 64, True),
        (130, 130, 64, True),
        (7, 200, 32, True),
        (200, 7, 32, True),
        (33, 100, 80, False),
        (1, 1, 64, True),
    ):
        q, k, v = (torch.randn(2, 3, n, width).to(dtype) for n in (queries, keys, keys))
        scores = q.double() @ k.double().mT * width**-0.5
        if causal:
            scores = scores.masked_fill(torch.ones(queries, keys, dtype=torch.bool).triu(1), float("-inf"))
        out, lse = attention(q, k, v, is_causal=causal)
        yield f"{queries} {keys}", (out, scores.softmax(-1) @ v.double())
        yield f"{queries} {keys} lse", (lse, scores.logsumexp(-1))
    q, k, v = (torch.randn(1, 40, 2, 64).to(dtype).transpose(1, 2) for _ in range(3))
    q[0, 0, 3, 5], k[0, 1, 30, 2] = float("nan"), float("nan")
    scores = (q.double() @ k.double().mT * 0.125).masked_fill(
        torch.ones(40, 40, dtype=torch.bool).triu(1), float("-inf")
    )
    yield "nan, transposed", (attention(q, k, v)[0], scores.softmax(-1) @ v.double())
