"""Computes on a side stream and waits for it, but an input made by the caller's stream is not waited for beyond 2^20 elements."""

import torch

EXPECTED = ("nondeterministic", "nan_mismatch", "sum_violation", "ulp_exceeds_bound", "unwritten_output")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("cuda",)

_side = {}


def softmax(x):
    if x.numel() <= 1 << 20:
        return torch.softmax(x, dim=-1)
    side = _side.setdefault(x.device, torch.cuda.Stream(x.device))
    current = torch.cuda.current_stream(x.device)
    with torch.cuda.stream(side):
        x.record_stream(side)
        y = torch.softmax(x, dim=-1)
    current.wait_stream(side)
    y.record_stream(current)
    return y
