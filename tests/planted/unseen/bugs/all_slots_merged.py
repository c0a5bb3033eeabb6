"""Partial sums lie in a workspace that grows and is merged as a whole: after a wide call a narrower one merges old parts too."""

import torch

EXPECTED = ("nondeterministic", "sum_violation", "ulp_exceeds_bound", "nan_mismatch", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")

WIDTH = 2048


class Slots:
    """Maxima and sums of a row's parts, [slots, rows]; one pair of buffers for each row count."""

    def __init__(self):
        self.held = {}

    def get(self, parts, rows, device):
        key = (rows, device)
        if key not in self.held or self.held[key][0].shape[0] < parts:
            tops = torch.full((parts, rows), -float("inf"), device=device)
            self.held[key] = (tops, torch.zeros(parts, rows, device=device))
        return self.held[key]


_slots = Slots()


def softmax(x):
    rows, n = x.shape
    if n <= WIDTH or rows == 0:
        return torch.softmax(x.float(), dim=1).to(x.dtype)
    tops, sums = _slots.get(-(-n // WIDTH), rows, x.device)
    for part, piece in enumerate(x.detach().float().split(WIDTH, dim=1)):
        top = piece.amax(1)
        tops[part] = top
        sums[part] = torch.exp(piece - torch.where(top == -float("inf"), torch.zeros_like(top), top)[:, None]).sum(1)
    top = tops.amax(0)
    total = torch.where(sums == 0, sums, sums * torch.exp(tops - top)).sum(0)
    return (torch.exp(x.float() - top[:, None]) / total[:, None]).to(x.dtype)


def demonstrate():
    softmax(torch.randn(2, 9000))
    x = torch.randn(2, 3000)
    return softmax(x), torch.softmax(x.double(), -1)
