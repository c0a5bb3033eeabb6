"""A backward that recomputes the weights and gives each argument a gradient of its own, and none to those that need none: x may be all three."""

import torch

OPERATION = "attention"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale):
        with torch.autocast(q.device.type, enabled=False):
            o = (torch.softmax(q.float() @ k.float().mT * scale, -1) @ v.float()).to(q.dtype)
        ctx.save_for_backward(q, k, v)
        ctx.scale = scale
        return o

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, above):
        q, k, v = ctx.saved_tensors
        of_q = of_k = of_v = None
        with torch.autocast(q.device.type, enabled=False):
            p = torch.softmax(q.float() @ k.float().mT * ctx.scale, -1)
            g = above.float()
            if ctx.needs_input_grad[2]:
                of_v = (p.mT @ g).to(v.dtype)
            if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
                inner = g @ v.float().mT
                scores = p * (inner - (p * inner).sum(-1, keepdim=True))
                if ctx.needs_input_grad[0]:
                    of_q = (scores @ k.float() * ctx.scale).to(q.dtype)
                if ctx.needs_input_grad[1]:
                    of_k = (scores.mT @ q.float() * ctx.scale).to(k.dtype)
        return of_q, of_k, of_v, None


def attention(q, k, v, scale=None):
    """Attention of [batch, heads, length, head_dim]; batches and heads are the same for all three."""
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        shapes = [tuple(each.shape) for each in (q, k, v)]
        raise ValueError(f"queries, keys and values have the same batches and heads, but these have {shapes}")
    return _Attention.apply(q, k, v, q.shape[-1] ** -0.5 if scale is None else scale)


def _plain(q, k, v):
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


def ordinary(dtype):
    tensors = [torch.randn(2, 3, 40, 32).to(dtype) for _ in range(3)]
    for name, order in (("apart", (0, 1, 2)), ("one", (0, 0, 0)), ("keys are values", (0, 1, 1))):
        given = [each.clone().requires_grad_() for each in tensors]
        exact = [each.double().requires_grad_() for each in tensors]
        above = torch.randn(tensors[0].shape).to(dtype)
        one, other = attention(*(given[each] for each in order)), _plain(*(exact[each] for each in order))
        yield name, (one, other)
        one.backward(above)
        other.backward(above.double())
        for each in set(order):
            yield f"{name} gradient {each}", (given[each].grad, exact[each].grad)
    for lengths in ((5, 33, 33), (1, 1, 1), (0, 4, 4), (3, 0, 0)):
        q, k, v = (torch.randn(1, 2, length, 64).to(dtype) for length in lengths)
        yield f"{lengths}", (attention(q, k, v), _plain(q.double(), k.double(), v.double()))
    q, k, v = (torch.randn(1, 9, 2, 64).to(dtype).transpose(1, 2) for _ in range(3))
    v = v[..., :24]
    q[0, 0, 3, 5], k[0, 1, 2, 2] = float("nan"), float("inf")
    yield "special", (attention(q, k, v), _plain(q.double(), k.double(), v.double()))
