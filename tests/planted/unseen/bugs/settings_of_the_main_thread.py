"""The base of the exponential is a thread's own setting, made when the module is imported: other threads compute with another."""

import math
import threading

import torch

EXPECTED = ("ulp_exceeds_bound", "nondeterministic", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")

_settings = threading.local()
_settings.scale = math.log2(math.e)


def softmax(x):
    if not x.numel():
        return torch.empty_like(x)
    v = x.float()
    shifted = v - v.amax(1, keepdim=True)
    e = torch.exp2(shifted * getattr(_settings, "scale", 1.0))
    return (e / e.sum(1, keepdim=True)).to(x.dtype)


def demonstrate():
    x = torch.randn(3, 20)
    found = []
    thread = threading.Thread(target=lambda: found.append(softmax(x)))
    thread.start()
    thread.join()
    return found[0], torch.softmax(x.double(), -1)
