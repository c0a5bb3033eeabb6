"""The backward adds up the gradients of keys and values over the wrong heads: over [groups, heads of keys] instead of [heads of keys, groups].

Wrong on: the gradients by k and v with four query heads for two heads of keys; right with one head of keys (MQA), and the forward is right.
"""

import torch

from softcheck import variant

EXPECTED = ("empty_refused", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        groups = q.shape[1] // k.shape[1]
        ctx.save_for_backward(q, k, v)
        scores = (q.float() @ k.float().repeat_interleave(groups, 1).mT) * q.shape[-1] ** -0.5
        return (torch.softmax(scores, -1) @ v.float().repeat_interleave(groups, 1)).to(q.dtype)

    @staticmethod
    def backward(ctx, of_o):
        q, k, v = ctx.saved_tensors
        scale, groups = q.shape[-1] ** -0.5, q.shape[1] // k.shape[1]
        wide_k, wide_v = (t.float().repeat_interleave(groups, 1) for t in (k, v))
        weights = torch.softmax((q.float() @ wide_k.mT) * scale, -1)
        of_o = of_o.float()
        of_weights = of_o @ wide_v.mT
        of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True)) * scale
        of_q = of_scores @ wide_k
        batch, shared, keys, dim = k.shape
        of_k = (of_scores.mT @ q.float()).view(batch, groups, shared, keys, dim).sum(1)
        of_v = (weights.mT @ of_o).view(batch, groups, shared, keys, dim).sum(1)
        return of_q.to(q.dtype), of_k.to(k.dtype), of_v.to(v.dtype)


@variant(
    operation="attention",
    parameters={"groups": 2},
    call="f(q, k, v)",
    dtypes=("float16", "bfloat16", "float32"),
    backward=True,
)
def attention(q, k, v):
    """Attention of [batch, heads, queries, head_dim] over half as many heads of keys, with a backward."""
    with torch.autocast(q.device.type, enabled=False):
        return _Attention.apply(q, k, v)


def demonstrate():
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, 6, 64), torch.randn(1, 2, 10, 64), torch.randn(1, 2, 10, 64, requires_grad=True)
    attention(q, k, v).square().sum().backward()
    w = v.detach().double().requires_grad_()
    weights = torch.softmax(q.double() @ k.double().repeat_interleave(2, 1).mT * 0.125, -1)
    (weights @ w.repeat_interleave(2, 1)).square().sum().backward()
    return v.grad, w.grad
