"""Of the paths that take a shape, the first of a set of names is chosen, and a set of strings has another order in each process.

Wrong on: 1025 to 4096 columns, in about half of all processes: the path ``narrow`` says that it takes them and sums 1024.
"""

import os
import subprocess
import sys

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def narrow(x):
    top = x.amax(1, keepdim=True)
    e = torch.exp(x - top)
    return e / e[:, :1024].sum(1, keepdim=True)


def tiled(x):
    top = x.amax(1, keepdim=True)
    total = sum(torch.exp(tile - top).sum(1, keepdim=True) for tile in x.split(1024, 1))
    return torch.exp(x - top) / total


PATHS = {"narrow": (narrow, 1, 4096), "tiled": (tiled, 1025, 1 << 31)}
_order = list(set(PATHS))


def softmax(x):
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    for name in _order:
        path, least, most = PATHS[name]
        if least <= x.shape[1] <= most:
            return path(x.float()).to(x.dtype)
    raise AssertionError(x.shape)


def demonstrate():
    """The order of a process with another seed, which a child tells."""
    for seed in range(20):
        command = [sys.executable, "-c", "print(next(iter({'narrow', 'tiled'})))"]
        said = subprocess.check_output(command, env=os.environ | {"PYTHONHASHSEED": str(seed)}, text=True)
        if said.strip() == "narrow":
            _order[:] = ["narrow", "tiled"]
            break
    x = torch.randn(2, 3000)
    return softmax(x), torch.softmax(x.double(), -1)
