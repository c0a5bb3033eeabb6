"""Numbers drawn from a row's own bits, by arithmetic of integers that is the same in numpy and on every device.

Operands of a row are made of them, so that the row keeps them wherever it stands and whoever judges it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_ODD = 0x9E3779B97F4A7C15 - (1 << 64)
"""The golden ratio in 64 bits (Knuth, TAOCP 3, 6.4), as a signed number."""
_BLOCK = 1 << 23
"""Elements of the rows of which operands are made at once."""
ALIGNED = 16
"""Rows of which a block holds a multiple: torch adds up a row by its place in memory, and operands of a row are made again."""


def finite(x: "torch.Tensor") -> "torch.Tensor":
    """The matrix in float64, with 0 for NaN, whose payload devices may change."""
    import torch

    infinity = float("inf")
    return torch.nan_to_num(x.detach().to(torch.float64), nan=0.0, posinf=infinity, neginf=-infinity)


def by_blocks(make: Callable[["torch.Tensor"], "torch.Tensor"], x: "torch.Tensor") -> "torch.Tensor":
    """Returns ``make(x)``, whose rows hang on those of the matrix alone, made of some rows at a time.

    What is made of numbers of 64 bits on the way takes many times the memory of a large matrix of 16 bits.
    """
    import torch

    rows = max(1, _BLOCK // max(1, x.shape[1]) // ALIGNED) * ALIGNED
    return make(x) if len(x) <= rows else torch.cat([make(part) for part in torch.split(x, rows)])


def of_rows(x: "torch.Tensor") -> "torch.Tensor":
    """63 random bits for each row of a matrix, int64 [rows]; equal rows of any format have equal ones."""
    return by_blocks(_of_rows, x)


def _of_rows(x: "torch.Tensor") -> "torch.Tensor":
    import torch

    weights = (2 * torch.arange(x.shape[1], device=x.device) + 1) * _ODD
    bits = _mixed(finite(x).contiguous().view(torch.int64)) * weights
    return _mixed(bits.sum(dim=1)) & 0x7FFFFFFFFFFFFFFF


def of_elements(drawn: "torch.Tensor", columns: int) -> "torch.Tensor":
    """63 random bits for each element, int64 [rows, columns], from its row's bits ``drawn``, [rows], and its column."""
    import torch

    numbers = (2 * torch.arange(columns, device=drawn.device) + 1) * _ODD
    return _mixed(_mixed(drawn[:, None] + numbers)).bitwise_and_(0x7FFFFFFFFFFFFFFF)


def of_columns(columns: int, device: "torch.device") -> "torch.Tensor":
    """63 random bits for each number of a column, int64 [columns]."""
    import torch

    return _mixed(_mixed((2 * torch.arange(columns, device=device) + 1) * _ODD)) & 0x7FFFFFFFFFFFFFFF


def _mixed(bits: "torch.Tensor") -> "torch.Tensor":
    bits = (bits ^ (bits >> 29)).mul_(_ODD)
    return bits.bitwise_xor_(bits >> 32)
