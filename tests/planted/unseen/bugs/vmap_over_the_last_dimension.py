"""The rule for torch.vmap leaves the mapped dimension where it stands, and the softmax is over the last dimension even where that is the mapped one.

Wrong on: ``torch.vmap(softmax, in_dims=2)``, as over samples that stand last. ``in_dims`` 0 and 1, and all calls without vmap, are right."""

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "wrong_layout", "wrong_gradient")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _rows(y, x, row_step, column_step, n, WIDTH: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, WIDTH).to(tl.int64)
    peak = tl.full([], -float("inf"), tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(v, 0))
    mass = tl.zeros([WIDTH], tl.float32)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        mass += tl.exp(v - peak)
    whole = tl.sum(mass, 0)
    for at in range(0, n, WIDTH):
        c = at + lane
        v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + r * n + c, tl.exp(v - peak) / whole, mask=c < n)


def _launched(x):
    flat = x.reshape(-1, x.shape[-1]) if x.numel() else x
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel():
        rows, n = flat.shape
        _rows[(rows,)](y, flat, *flat.stride(), n, min(1024, triton.next_power_of_2(n)))
    return y


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return _launched(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        wide, g = y.float(), grad.float()
        return (wide * (g - (wide * g).sum(-1, keepdim=True))).to(y.dtype)

    @staticmethod
    def vmap(info, in_dims, x):
        return _Softmax.apply(x), in_dims[0]


def softmax(x):
    return _Softmax.apply(x)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(4, 7, 5)
    return torch.vmap(softmax, in_dims=2, out_dims=2)(x), torch.softmax(x.double(), 1)
