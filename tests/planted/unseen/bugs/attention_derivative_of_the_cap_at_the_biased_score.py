"""The backward takes 1 - (s / cap)^2 for the derivative of the soft cap, of a score s to which the bias has been added.

Wrong on: the gradient with a soft cap and a bias; right with one of both.
"""

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, bias, scale, cap):
        with torch.autocast(q.device.type, enabled=False):
            s = q.float() @ k.float().mT * scale
            if cap:
                s = cap * torch.tanh(s / cap)
            if bias is not None:
                s = s + bias.float()
            lse = torch.logsumexp(s, -1, keepdim=True)
            o = torch.exp(s - lse) @ v.float()
        ctx.save_for_backward(q, k, v, bias, o, lse)
        ctx.options = scale, cap
        return o.to(q.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, above):
        q, k, v, bias, o, lse = ctx.saved_tensors
        scale, cap = ctx.options
        with torch.autocast(q.device.type, enabled=False):
            above = above.float()
            s = q.float() @ k.float().mT * scale
            if cap:
                s = cap * torch.tanh(s / cap)
            if bias is not None:
                s = s + bias.float()
            p = torch.exp(s - lse)
            of_v = p.mT @ above
            of_s = p * (above @ v.float().mT - (above * o).sum(-1, keepdim=True))
            of_bias = None
            if bias is not None and ctx.needs_input_grad[3]:
                of_bias = of_s.sum_to_size(bias.shape).to(bias.dtype)
            if cap:
                # Hidden keys have a weight of 0, and a score of -inf.
                of_s = torch.where(s.isinf(), 0.0, of_s * (1.0 - (s / cap).square()))
            of_s = of_s * scale
            of_q, of_k = of_s @ k.float(), of_s.mT @ q.float()
        return of_q.to(q.dtype), of_k.to(k.dtype), of_v.to(v.dtype), of_bias, None, None


@variant(operation="attention", dtypes=["float16", "bfloat16", "float32"])
def attention(q, k, v, bias=None, scale=None, softcap=0.0):
    """Attention of [batch, heads, length, dim], with a soft cap if it is not 0, and a bias that is added after it."""
    if not q.numel() or k.shape[2] == 0:
        return torch.full_like(q, float("nan"))
    return _Attention.apply(q, k, v, bias, q.shape[-1] ** -0.5 if scale is None else scale, softcap)


def _exact(q, k, v, bias, cap):
    s = q @ k.mT * q.shape[-1] ** -0.5
    s = cap * torch.tanh(s / cap) if cap else s
    return torch.softmax(s if bias is None else s + bias, -1) @ v


def _gradients(q, k, v, bias, cap):
    given = [None if t is None else t.clone().requires_grad_() for t in (q, k, v, bias)]
    exact = [None if t is None else t.double().requires_grad_() for t in (q, k, v, bias)]
    above = torch.randn(q.shape).to(q.dtype)
    attention(*given, softcap=cap).backward(above)
    _exact(*exact, cap).backward(above.double())
    return [(a.grad, b.grad) for a, b in zip(given, exact, strict=True) if a is not None]


def demonstrate():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 20, 16) for _ in range(3))
    return _gradients(q, k, v, torch.randn(1, 2, 20, 20), 5.0)[0]


def ordinary(dtype):
    for with_bias, cap in ((False, 0.0), (True, 0.0), (False, 20.0)):
        q, k, v = (torch.randn(2, 2, 40, 16).to(dtype) for _ in range(3))
        bias = torch.randn(2, 2, 40, 40).to(dtype) if with_bias else None
        wide = [None if t is None else t.double() for t in (q, k, v, bias)]
        yield "answer", (attention(q, k, v, bias, softcap=cap), _exact(*wide, cap))
        for pair in _gradients(q, k, v, bias, cap):
            yield "gradient", pair
