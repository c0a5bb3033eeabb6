"""Temperatures of one dimension are taken for one for each column where there are as many as columns: for a square matrix that is the wrong way.

Wrong on: as many rows as columns, with temperatures that differ; with fewer or more rows each row gets its own.
"""

import torch

OPERATION = "softmax"
EXPECTED = ("ulp_exceeds_bound", "order_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(logits, temperatures):
    """Softmax of [rows, columns] for sampling; ``temperatures`` is one number, or one for each row."""
    temperatures = torch.as_tensor(temperatures, device=logits.device, dtype=torch.float32)
    if temperatures.ndim == 1 and temperatures.shape[0] != logits.shape[-1]:
        temperatures = temperatures[:, None]
    return torch.softmax(logits.float() / temperatures, dim=-1).to(logits.dtype)


def _both(x, t):
    return softmax(x, t), torch.softmax(x.double() / t.double()[:, None], -1)


def demonstrate():
    return _both(torch.randn(64, 64), torch.linspace(0.5, 2.0, 64))


def ordinary(dtype):
    yield "16x1024", _both(torch.randn(16, 1024).to(dtype), torch.linspace(0.5, 2.0, 16))
    yield "ones", _both(torch.randn(9, 9).to(dtype), torch.ones(9))
