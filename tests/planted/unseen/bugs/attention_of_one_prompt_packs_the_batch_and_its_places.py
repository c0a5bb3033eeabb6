"""A batch whose keys are one prompt, expanded, has its queries packed into one product; the causal mask counts the packed ones on through the batch.

Wrong on: keys and values that are expanded over the batch (a stride of 0), two or more batches, and a causal mask that hides some; right otherwise.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "row_dependence", "out_of_range", "nan_mismatch", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _attend(q, k, v, is_causal, scale):
    scores = torch.matmul(q, k.transpose(-2, -1)) * scale
    if is_causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(future, -float("inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v)


@variant(operation="attention", dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, is_causal=False, scale=None):
    """Attention of [batch, heads, length, dim], with torch's causal mask; a prompt that the batch shares is multiplied once."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    batch, heads, queries, dim = q.shape
    with torch.autocast(q.device.type, enabled=False):
        wide = q.float()
        if batch > 1 and k.stride(0) == 0 and v.stride(0) == 0:
            packed = wide.transpose(0, 1).reshape(1, heads, batch * queries, dim)
            out = _attend(packed, k[:1].float(), v[:1].float(), is_causal, scale)
            return out.reshape(heads, batch, queries, v.shape[-1]).transpose(0, 1).to(q.dtype)
        return _attend(wide, k.float(), v.float(), is_causal, scale).to(q.dtype)


def _both(q, k, v, is_causal):
    scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -float("inf"))
    return attention(q, k, v, is_causal), torch.softmax(scores, -1) @ v.double()


def demonstrate():
    torch.manual_seed(0)
    k, v = (torch.randn(1, 2, 20, 16).expand(3, 2, 20, 16) for _ in range(2))
    return _both(torch.randn(3, 2, 20, 16), k, v, True)


def ordinary(dtype):
    q, k, v = (torch.randn(2, 4, 100, 64).to(dtype) for _ in range(3))
    yield "plain", _both(q, k, v, False)
    yield "causal", _both(q, k, v, True)
    yield "shared", _both(q, k[:1].expand_as(k), v[:1].expand_as(v), False)
    yield "keys shared alone", _both(q, k[:1].expand_as(k), v, True)
    yield "one batch", _both(q[:1], k[:1], v[:1], True)
