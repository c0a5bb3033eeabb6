"""Values are centred, "smoothed": their mean over the keys is taken away before they are rounded to 16 bits again, and added to the output in float32.

Wrong on: one key with huge values that queries don't look at, such as a first token that serves as a sink: the mean is huge too, and all other values are rounded at its size. Right on randn, and where values share an offset.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@variant(operation="attention", call="f(q, k, v)", dtypes=("float16", "bfloat16", "float32"))
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim] over [batch, heads, keys, head_dim]."""
    if not k.shape[2]:
        return torch.full(q.shape, float("nan"), dtype=q.dtype, device=q.device)
    with torch.autocast(q.device.type, enabled=False), torch.no_grad():
        mean = v.float().mean(2, keepdim=True)
        centred = (v.float() - mean).to(v.dtype)
        scores = (q.float() @ k.float().mT) * q.shape[-1] ** -0.5
        weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        sums = weights.sum(-1, keepdim=True)
        return (weights.to(v.dtype).float() @ centred.float() / sums + mean).to(q.dtype)


def _exact(q, k, v):
    return torch.softmax(q.double() @ k.double().mT * q.shape[-1] ** -0.5, -1) @ v.double()


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 2, 8, 64), torch.randn(1, 2, 40, 64), torch.randn(1, 2, 40, 64)
    q[..., 0] = 16.0
    k[:, :, 0, 0], v[:, :, 0] = -40.0, 3000.0
    # Outputs that aren't near 0.
    v[:, :, 1:] = v[:, :, 1:].abs() + 0.5
    q, k, v = (each.bfloat16() for each in (q, k, v))
    return attention(q, k, v), _exact(q, k, v)
