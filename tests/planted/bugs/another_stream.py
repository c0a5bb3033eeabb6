"""Computes on a side stream that waits for nothing: the input may not be there yet, and the caller doesn't wait for the output.

From experience: overlapping kernels without events.
"""

import torch

EXPECTED = ("nondeterministic", "nan_mismatch", "unwritten_output", "ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("probe/determinism",)
DTYPES = ("float32",)
BACKENDS = ("cuda",)

_streams = {}


def softmax(x):
    if x.device.type != "cuda":
        return torch.softmax(x, dim=-1)
    if x.device not in _streams:
        _streams[x.device] = torch.cuda.Stream(x.device)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    with torch.cuda.stream(_streams[x.device]):
        torch.softmax(x, dim=-1, out=out)
    return out
