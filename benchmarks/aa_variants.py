"""One kernel under two names, for the A/A test: whatever differs between them is the measurement's own error."""

import torch

from softcheck.variants.builtin.one_block import one_block
from softcheck.variants.declaration import declaration_of

# ruff: noqa: INP001 - a file of variants, not a package


def first(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]."""
    return one_block(x)


def second(x: torch.Tensor) -> torch.Tensor:
    """The same."""
    return one_block(x)


for _function in (first, second):
    _function.__softcheck_declaration__ = declaration_of(one_block)  # type: ignore[attr-defined]
