"""PyTorch's own softmax, the reference that most comparisons use."""

import torch

from softcheck.variants.builtin._common import ALL_DTYPES
from softcheck.variants.declaration import variant


@variant(dtypes=ALL_DTYPES, dimensions=4, description="torch.softmax over the last dimension", provenance="PyTorch")
def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    return torch.softmax(x, dim=-1)
