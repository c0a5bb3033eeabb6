"""A loop over chunks of 1024 columns is frozen by ``torch.jit.trace`` on a narrow example, with one trip.

Wrong on: rows of more than 1024 columns, whose later chunks enter neither maximum nor sum.
"""

import warnings

import torch

OPERATION = "log_softmax"
EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_CHUNK = 1024


def _by_chunks(x):
    wide = x.float()
    peak = torch.full_like(wide[..., :1], float("-inf"))
    for start in range(0, x.shape[-1], _CHUNK):
        peak = torch.maximum(peak, wide[..., start : start + _CHUNK].detach().amax(-1, keepdim=True))
    total = torch.zeros_like(peak)
    for start in range(0, x.shape[-1], _CHUNK):
        total = total + torch.exp(wide[..., start : start + _CHUNK] - peak).sum(-1, keepdim=True)
    return ((wide - peak) - torch.log(total)).to(x.dtype)


_traced = {}


def log_softmax(x):
    """Log-softmax of the last dimension, traced once for each dtype to spare Python's part of it."""
    if not x.numel():
        return torch.empty_like(x)
    if x.dtype not in _traced:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _traced[x.dtype] = torch.jit.trace(_by_chunks, torch.zeros(2, 16, dtype=x.dtype, device=x.device))
    return _traced[x.dtype](x)


def _both(x):
    return log_softmax(x), torch.log_softmax(x.double(), -1)


def demonstrate():
    return _both(torch.randn(3, 2500))


def ordinary(dtype):
    yield "16x1024", _both(torch.randn(16, 1024).to(dtype))
    yield "4x7", _both(torch.randn(4, 7).to(dtype))
