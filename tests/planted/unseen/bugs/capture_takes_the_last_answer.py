"""Reads from the device whether a shift is needed; while a graph is captured that can't be, and the last call's answer is taken.

Wrong on: a graph captured after a warm-up with small logits and replayed with logits of 89 and more: exp overflows.
"""

import torch

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound", "sum_violation", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("cuda",)

_needs_shift = True


def softmax(x):
    global _needs_shift
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    wide = x.float()
    if not torch.cuda.is_current_stream_capturing():
        _needs_shift = not bool((wide.abs().amax() < 16.0).item())
    if _needs_shift:
        wide = wide - wide.amax(1, keepdim=True)
    e = wide.exp()
    return (e / e.sum(1, keepdim=True)).to(x.dtype)
