"""Every thread has a workspace of its own, made when it first calls; a refused call leaves nothing in it."""

import threading

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")

_local = threading.local()


def workspace(rows):
    if not hasattr(_local, "sums") or _local.sums.numel() < rows or _local.sums.is_inference():
        _local.sums = torch.empty(max(rows, 64), dtype=torch.float32, device="cpu")
    return _local.sums[:rows]


def softmax(x):
    if x.dim() != 2:
        raise ValueError(f"{x.dim()} dimensions, expected 2")
    if x.numel() == 0:
        return torch.empty_like(x)
    if x.requires_grad or x.device.type != "cpu":
        return torch.softmax(x.float(), 1).to(x.dtype)
    sums = workspace(x.shape[0]).zero_()
    e = torch.exp(x.float() - x.float().amax(1, keepdim=True))
    sums += e.sum(1)
    return (e / sums[:, None]).to(x.dtype)
