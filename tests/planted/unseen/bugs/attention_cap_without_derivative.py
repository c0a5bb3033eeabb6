"""The backward of attention with a soft cap of 20 leaves out the derivative of the cap, 1 - tanh(s / 20)^2.

Wrong on: gradients of queries and keys where scores are as large as the cap is for, as of 4 * randn. The answer and the
gradient of values are right, and on randn all gradients are right to 1 % or so.
"""

import torch

from softcheck import variant

EXPECTED = ("wrong_gradient",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

_CAP = 20.0


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        with torch.autocast(q.device.type, enabled=False):
            capped = _CAP * torch.tanh(q.float() @ k.float().mT * (q.shape[-1] ** -0.5 / _CAP))
            p = torch.softmax(capped, -1)
            o = p @ v.float()
        ctx.save_for_backward(q, k, v, p, o)
        return o.to(q.dtype)

    @staticmethod
    def backward(ctx, of_o):
        q, k, v, p, o = ctx.saved_tensors
        with torch.autocast(q.device.type, enabled=False):
            of_o = of_o.float()
            of_v = p.mT @ of_o
            of_s = p * (of_o @ v.float().mT - (of_o * o).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
            of_q, of_k = of_s @ k.float(), of_s.mT @ q.float()
        return of_q.to(q.dtype), of_k.to(k.dtype), of_v.to(v.dtype)


@variant(operation="attention", parameters={"softcap": _CAP}, call="f(q, k, v)", backward=True)
def attention(q, k, v):
    return _Attention.apply(q, k, v)


def _exact(q, k, v):
    capped = _CAP * torch.tanh(q @ k.mT * (q.shape[-1] ** -0.5 / _CAP))
    return torch.softmax(capped, -1) @ v


def _gradients(q, k, v):
    given = [t.clone().requires_grad_() for t in (q, k, v)]
    exact = [t.double().requires_grad_() for t in (q, k, v)]
    above = torch.randn(q.shape).to(q.dtype)
    attention(*given).backward(above)
    _exact(*exact).backward(above.double())
    return [(of_given.grad, of_exact.grad) for of_given, of_exact in zip(given, exact, strict=True)]


def demonstrate():
    torch.manual_seed(0)
    q, k, v = 4 * torch.randn(1, 2, 40, 64), torch.randn(1, 2, 40, 64) * 4, torch.randn(1, 2, 40, 64)
    return _gradients(q, k, v)[0]


def ordinary(dtype):
    q, k, v = (torch.randn(1, 2, 40, 64).to(dtype) for _ in range(3))
    yield "answer", (attention(q * 4, k * 4, v), _exact(*(t.double() for t in (q * 4, k * 4, v))))
    yield "values", _gradients(q * 4, k * 4, v)[2]
