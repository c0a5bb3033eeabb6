"""Right: attention that returns its log-sum-exps too, with a backward in double that adds up the gradients of both answers, of which either may be missing."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.set_materialize_grads(False)
        with torch.autocast(q.device.type, enabled=False):
            scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5
            lse = torch.logsumexp(scores, -1)
            o = torch.softmax(scores, -1) @ v.double()
        ctx.save_for_backward(q, k, v, o)
        return o.to(q.dtype), lse.float()

    @staticmethod
    def backward(ctx, of_o, of_lse):
        if of_o is None and of_lse is None:
            return None, None, None
        q, k, v, o = ctx.saved_tensors
        scale = q.shape[-1] ** -0.5
        with torch.autocast(q.device.type, enabled=False):
            p = torch.softmax(q.double() @ k.double().mT * scale, -1)
            of_v = torch.zeros_like(v)
            inner = torch.zeros_like(p)
            if of_o is not None:
                of_o = of_o.double()
                of_v = (p.mT @ of_o).to(v.dtype)
                inner = of_o @ v.double().mT - (of_o * o).sum(-1, keepdim=True)
            if of_lse is not None:
                inner = inner + of_lse[..., None].double()
            of_scores = p * inner
            of_q = (of_scores @ k.double() * scale).to(q.dtype)
            of_k = (of_scores.mT @ q.double() * scale).to(k.dtype)
        return of_q, of_k, of_v


@variant(operation="attention", call="f(q, k, v)", dtypes=("float16", "bfloat16", "float32"))
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim], and the log-sum-exp of each query in float32."""
    return _Attention.apply(q, k, v)
