"""Log-softmax over any dimension, which is given by keyword alone and brought to the end by a view and back by another one."""

import torch

OPERATION = "log_softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def log_softmax(input, *, dim):
    """Log-softmax over a dimension; the answer is a view that lies like the dimension it was computed over."""
    if not input.numel():
        return torch.empty_like(input)
    rows = input.movedim(dim, -1).float()
    below = rows - rows.amax(-1, keepdim=True).detach()
    return (below - below.exp().sum(-1, keepdim=True).log()).to(input.dtype).movedim(-1, dim)


def ordinary(dtype):
    for shape in ((4, 100), (1, 1), (2, 9000), (500, 3), (0, 4), (4, 0), (2, 3, 17), (7,)):
        x = torch.randn(shape).to(dtype)
        for dim in (-1, 0, len(shape) - 1, -len(shape)):
            yield f"{shape} {dim}", (log_softmax(x, dim=dim), torch.log_softmax(x.double(), dim))
    x = torch.randn(5, 60).to(dtype)
    x[0], x[1, 4], x[2, 5], x[3, :40] = float("-inf"), float("nan"), float("inf"), float("-inf")
    yield "special", (log_softmax(x, dim=-1), torch.log_softmax(x.double(), -1))
    x = (torch.randn(30, 7) * 1e4).to(dtype).mT
    yield "transposed", (log_softmax(x, dim=1), torch.log_softmax(x.double(), 1))
