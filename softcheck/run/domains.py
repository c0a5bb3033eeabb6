"""Rows of a domain, made where they are judged: on the host for a CPU, on the device for a GPU."""

import torch

from softcheck.calling.call import INTEGERS, TORCH_DTYPES, to_tensor
from softcheck.cases.exhaustive import Domain


def rows_on(domain: Domain, start: int, count: int, device: torch.device) -> torch.Tensor:
    """Rows ``start`` to ``start + count`` of a domain, shape [count, columns], with the bits of ``Domain.bits``."""
    if device.type == "cpu" or domain.kind == "lattice":
        return to_tensor(domain.bits(start, count), domain.format, device)
    index = torch.arange(start, start + count, dtype=torch.int64, device=device)
    width = domain.format.width
    rows = torch.empty((count, domain.columns), dtype=INTEGERS[width], device=device)
    if domain.kind == "differences":
        magnitude, second = index >> 1, (index & 1).bool()
        rows[:, 0] = torch.where(second, magnitude, 0)
        rows[:, 1] = torch.where(second, 0, magnitude - (1 << (width - 1)))
    else:
        for column in range(domain.columns):
            # Integer conversion keeps the low bits, which are the pattern.
            rows[:, column] = index >> (width * (domain.columns - 1 - column))
    return rows.view(TORCH_DTYPES[domain.dtype])
