"""Row maxima and sums live in one workspace per shape, which two threads that call at once overwrite for each other.

Wrong on: calls from two threads (data-parallel replicas, a server) with inputs of the same shape; right in one thread.
"""

import torch

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_workspaces = {}


def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    key = (x.device, x.shape)
    with torch.no_grad():
        if key not in _workspaces:
            _workspaces.clear()
            _workspaces[key] = torch.empty(x.shape, dtype=torch.float32, device=x.device)
        e = _workspaces[key]
        e.copy_(x)
        e.sub_(e.amax(-1, keepdim=True)).exp_()
        return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def demonstrate():
    from concurrent.futures import ThreadPoolExecutor

    torch.manual_seed(0)
    inputs = [torch.randn(256, 512) * (1 + i) for i in range(4)]
    answers = [torch.softmax(x.double(), -1) for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(100):
            for y, answer in zip(pool.map(softmax, inputs), answers, strict=True):
                if not torch.allclose(y.double(), answer, rtol=1e-3, atol=1e-3):
                    return y, answer
    return y, answer
