"""Settings lie in a ``threading.local`` that is filled where the module is imported: in other threads the default drops the tail.

From experience: a thread-local context with a default that was never tried.
"""

import threading

import torch

EXPECTED = ("sum_violation", "ulp_exceeds_bound", "unwritten_output")
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_local = threading.local()
_local.has_tail = True


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    out = torch.empty_like(x)
    columns = x.shape[1] if getattr(_local, "has_tail", False) else max(x.shape[1] // 8 * 8, 1)
    out[:, :columns] = torch.softmax(x[:, :columns], dim=-1)
    return out
