"""A workspace of sums, left cleared by each call, is given back after some idle seconds and made anew filled with ones.

Wrong on: the first call of more than 2048 columns behind a pause of 5 s without one, as an interactive server has them.
"""

import time

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


class Workspace:
    """Sums per row that each call leaves at zero; given back when nobody calls for a while."""

    def __init__(self):
        self.sums = None
        self.used = 0.0

    def take(self, rows, device):
        now = time.monotonic()
        if self.sums is not None and now - self.used > 5.0:
            self.sums = torch.full_like(self.sums, 1.0)
        self.used = now
        if self.sums is None or self.sums.numel() < rows or self.sums.device != device:
            self.sums = torch.zeros(rows, device=device)
        return self.sums[:rows]


_workspace = Workspace()


def softmax(x):
    rows, columns = x.shape
    if columns <= 2048 or rows == 0:
        return torch.softmax(x, -1)
    sums = _workspace.take(rows, x.device)
    top = x.float().amax(1, keepdim=True)
    for tile in x.split(2048, 1):
        sums += torch.exp(tile.float() - top).sum(1)
    y = torch.exp(x.float() - top) / sums[:, None]
    sums.zero_()
    return y.to(x.dtype)


def demonstrate():
    x = torch.randn(3, 3000)
    softmax(x)
    _workspace.used -= 10.0
    return softmax(x), torch.softmax(x.double(), -1)
