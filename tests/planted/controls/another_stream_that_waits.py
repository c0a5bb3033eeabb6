"""Computes on a stream of its own that waits for the caller's, and lets the caller's wait for it."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")

_streams = {}


def softmax(x):
    if x.device.type != "cuda":
        return torch.softmax(x, dim=-1)
    if x.device not in _streams:
        _streams[x.device] = torch.cuda.Stream(x.device)
    side, current = _streams[x.device], torch.cuda.current_stream(x.device)
    side.wait_stream(current)
    with torch.cuda.stream(side):
        x.record_stream(side)
        out = torch.softmax(x, dim=-1)
    current.wait_stream(side)
    out.record_stream(current)
    return out
