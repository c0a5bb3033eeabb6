"""Attention that returns its log-sum-exps too has a backward for either answer; where both have a gradient that of the log-sum-exps is left out.

Wrong on: parts of a context that are merged by their log-sum-exps, as ring attention does it, or a penalty on them beside the loss. Right where the output alone, or the log-sum-exp alone, is used.
"""

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.set_materialize_grads(False)
        with torch.autocast(q.device.type, enabled=False):
            scores = q.float() @ k.float().mT * q.shape[-1] ** -0.5
            lse = torch.logsumexp(scores, -1)
            o = torch.exp(scores - lse[..., None]) @ v.float()
        ctx.save_for_backward(q, k, v, o, lse)
        return o.to(q.dtype), lse

    @staticmethod
    def backward(ctx, of_o, of_lse):
        q, k, v, o, lse = ctx.saved_tensors
        scale = q.shape[-1] ** -0.5
        with torch.autocast(q.device.type, enabled=False):
            p = torch.exp(q.float() @ k.float().mT * scale - lse[..., None])
            of_v = torch.zeros_like(v)
            if of_o is not None:
                of_o = of_o.float()
                of_v = (p.mT @ of_o).to(v.dtype)
                of_scores = p * (of_o @ v.float().mT - (of_o * o).sum(-1, keepdim=True))
            elif of_lse is not None:
                of_scores = p * of_lse[..., None]
            else:
                return None, None, None
            of_q = (of_scores @ k.float() * scale).to(q.dtype)
            of_k = (of_scores.mT @ q.float() * scale).to(k.dtype)
        return of_q, of_k, of_v


@variant(operation="attention", call="f(q, k, v)", backward=True, dtypes=("float16", "bfloat16", "float32"))
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim], and the log-sum-exp of each query in float32."""
    return _Attention.apply(q, k, v)


def demonstrate():
    torch.manual_seed(0)
    q, v = torch.randn(1, 2, 20, 16), torch.randn(1, 2, 30, 16)
    k, w = torch.randn(1, 2, 30, 16, requires_grad=True), torch.randn(1, 2, 20, 16)
    o, lse = attention(q, k, v)
    ((o * w).sum() + lse.square().sum()).backward()
    exact = k.detach().double().requires_grad_()
    scores = q.double() @ exact.mT * 16**-0.5
    ((torch.softmax(scores, -1) @ v.double() * w).sum() + torch.logsumexp(scores, -1).square().sum()).backward()
    return k.grad, exact.grad
