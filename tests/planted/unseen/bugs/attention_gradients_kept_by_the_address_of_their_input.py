"""The backward adds up into one buffer for each address; queries, keys and values that are one tensor share it, and each of them returns all of it.

Wrong on: ``attention(x, x, x)``, and keys that are the values (a shared latent): the gradient is there two or three times. Three tensors are right.
"""

import torch

OPERATION = "attention"
EXPECTED = ("wrong_gradient", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale):
        with torch.autocast(q.device.type, enabled=False):
            p = torch.softmax(q.float() @ k.float().mT * scale, -1)
            o = (p @ v.float()).to(q.dtype)
        ctx.save_for_backward(q, k, v)
        ctx.scale = scale
        return o

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, above):
        q, k, v = ctx.saved_tensors
        buffers = {}

        def add(to, part):
            buffer = buffers.setdefault(to.data_ptr(), torch.zeros(to.shape, dtype=torch.float32, device=to.device))
            buffer += part

        with torch.autocast(q.device.type, enabled=False):
            p = torch.softmax(q.float() @ k.float().mT * ctx.scale, -1)
            g = above.float()
            add(v, p.mT @ g)
            inner = g @ v.float().mT
            scores = p * (inner - (p * inner).sum(-1, keepdim=True)) * ctx.scale
            add(q, scores @ k.float())
            add(k, scores.mT @ q.float())
        return *(buffers[each.data_ptr()].to(each.dtype) for each in (q, k, v)), None


def attention(q, k, v, scale=None):
    """Attention of [batch, heads, length, head_dim] with a backward that recomputes the weights."""
    return _Attention.apply(q, k, v, q.shape[-1] ** -0.5 if scale is None else scale)


def _plain(q, k, v):
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


def _gradient(tensors, call):
    given = [each.detach().clone().requires_grad_() for each in tensors]
    exact = [each.detach().double().requires_grad_() for each in tensors]
    above = torch.randn(tensors[0].shape, dtype=torch.float64)
    call(attention, given).backward(above.to(tensors[0].dtype))
    call(_plain, exact).backward(above.to(tensors[0].dtype).double())
    return [(one.grad, other.grad) for one, other in zip(given, exact, strict=True)]


def demonstrate():
    return _gradient([torch.randn(1, 2, 20, 32)], lambda f, x: f(x[0], x[0], x[0]))[0]


def ordinary(dtype):
    q, k, v = (torch.randn(2, 3, 40, 64).to(dtype) for _ in range(3))
    yield "forward", (attention(q, k, v), _plain(q.double(), k.double(), v.double()))
    yield "forward of one", (attention(q, q, q), _plain(q.double(), q.double(), q.double()))
    yield from zip("qkv", _gradient([q, k, v], lambda f, x: f(*x)), strict=True)
