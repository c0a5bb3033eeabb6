"""The backward goes through blocks of 32 queries and adds their shares of the gradients of keys and values to tensors of the keys' own type.

Wrong on: 16-bit keys that many queries see: each block's share is rounded, and the sum once more in every block; shares that cancel leave what was rounded. Right for up to 32 queries, in float32, and for the gradient of the queries.
"""

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")

_BLOCK = 32


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        with torch.autocast(q.device.type, enabled=False):
            scores = q.float() @ k.float().mT * q.shape[-1] ** -0.5
            lse = torch.logsumexp(scores, -1)
            o = torch.exp(scores - lse[..., None]) @ v.float()
        ctx.save_for_backward(q, k, v, o, lse)
        return o.to(q.dtype)

    @staticmethod
    def backward(ctx, of_o):
        q, k, v, o, lse = ctx.saved_tensors
        scale = q.shape[-1] ** -0.5
        of_q, of_k, of_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for start in range(0, q.shape[-2], _BLOCK):
            rows = slice(start, start + _BLOCK)
            some, of_some = q[..., rows, :].float(), of_o[..., rows, :].float()
            with torch.autocast(q.device.type, enabled=False):
                p = torch.exp(some @ k.float().mT * scale - lse[..., rows, None])
                mean = (of_some * o[..., rows, :]).sum(-1, keepdim=True)
                of_scores = p * (of_some @ v.float().mT - mean) * scale
                of_q[..., rows, :] = (of_scores @ k.float()).to(q.dtype)
                of_k += (of_scores.mT @ some).to(k.dtype)
                of_v += (p.mT @ of_some).to(v.dtype)
        return of_q, of_k, of_v


@variant(operation="attention", call="f(q, k, v)", backward=True, dtypes=("float16", "bfloat16", "float32"))
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim], with a backward that needs memory for 32 queries at a time."""
    return _Attention.apply(q, k, v)


def demonstrate():
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, 640, 16).bfloat16(), torch.randn(1, 1, 40, 16).bfloat16()
    v = torch.randn(1, 1, 40, 16).bfloat16().requires_grad_()
    w = torch.randn(1, 1, 640, 16).bfloat16()
    attention(q, k, v).backward(w)
    exact = v.detach().double().requires_grad_()
    (torch.softmax(q.double() @ k.double().mT / 4, -1) @ exact).backward(w.double())
    return v.grad, exact.grad
