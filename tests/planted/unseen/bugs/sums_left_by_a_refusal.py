"""Sums are added to a workspace that each call leaves cleared; a call that is refused half way leaves its sums in it."""

import contextlib

import torch

from softcheck import variant

EXPECTED = ("nondeterministic", "sum_violation", "ulp_exceeds_bound", "nan_mismatch", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_sums = {}


def _workspace(rows, device):
    held = _sums.get(device)
    if held is None or held.numel() < rows:
        held = _sums[device] = torch.zeros(max(rows, 128), device=device)
    return held[:rows]


@variant(dtypes=["float32"], max_columns=32768)
def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    work = _workspace(x.size(0), x.device)
    shifted = x - x.amax(-1, keepdim=True)
    work += shifted.exp().sum(-1)
    if x.size(-1) > 32768:
        raise ValueError(f"{x.size(-1)} columns, expected at most 32768")
    result = shifted.exp() / work[:, None]
    work.zero_()
    return result


def demonstrate():
    x = torch.randn(4, 50)
    with contextlib.suppress(ValueError):
        softmax(torch.randn(4, 40000))
    return softmax(x), torch.softmax(x.double(), -1)
