"""PyTorch's own softmax, the reference that most comparisons use."""

import torch

from softcheck.variants.builtin.declarations import declared


@declared("torch")
def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    return torch.softmax(x, dim=-1)
