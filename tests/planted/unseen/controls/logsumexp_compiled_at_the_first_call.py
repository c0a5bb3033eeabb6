"""A log-sum-exp behind torch.compile, compiled at the first call for any shape; without a GPU the captured graph runs operation by operation."""

import torch

OPERATION = "logsumexp"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _logsumexp(x):
    return torch.logsumexp(x.float(), dim=-1).to(x.dtype)


_compiled = None


def logsumexp(x):
    """Log-sum-exp of the last dimension."""
    global _compiled
    if _compiled is None:
        backend = "inductor" if torch.cuda.is_available() else "aot_eager"
        _compiled = torch.compile(_logsumexp, backend=backend, dynamic=True)
    return _compiled(x)


def ordinary(dtype):
    for shape in ((4, 100), (1, 1), (2, 9000), (500, 3), (0, 4), (4, 0), (2, 3, 17)):
        x = torch.randn(shape).to(dtype)
        yield str(shape), (logsumexp(x), torch.logsumexp(x.double(), -1))
    x = torch.randn(5, 60).to(dtype)
    x[0], x[1, 4], x[2, 5], x[3, :40] = float("-inf"), float("nan"), float("inf"), float("-inf")
    yield "special", (logsumexp(x), torch.logsumexp(x.double(), -1))
    x = torch.randn(30, 7).to(dtype).mT
    yield "transposed", (logsumexp(x), torch.logsumexp(x.double(), -1))
