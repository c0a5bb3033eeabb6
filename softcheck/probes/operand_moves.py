"""Layouts of a call's operands: of one while the others are packed, and of queries, keys and values together."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from softcheck.operations.operation import without_layout

HEADS_DIMS = 4
"""Dimensions of heads, [batch, heads, length, head_dim], and of their masks."""

Move = Callable[[torch.Tensor], torch.Tensor | None]
"""Returns an operand with the same values in another layout; None if it has too few dimensions."""

Lay = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Returns all operands of a call by name, laid out otherwise; None if they can't be."""


def _as(strided: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    strided.copy_(values)
    return strided


def _unwritten(values: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Memory for an operand of this shape whose contents would show: NaN, the largest integer, or true."""
    if values.is_floating_point():
        return values.new_full(shape, float("nan"))
    return values.new_full(shape, True if values.dtype == torch.bool else torch.iinfo(values.dtype).max)


def _beside(values: torch.Tensor, more: int) -> torch.Tensor:
    """The operand as the first columns of one with so many more."""
    *leading, last = values.shape
    return _as(_unwritten(values, (*leading, last + more))[..., :last], values)


def _padded(values: torch.Tensor) -> torch.Tensor | None:
    if values.dim() < 2:
        return None
    return _beside(values, 8)


def first_half(values: torch.Tensor) -> torch.Tensor:
    """The operand as the first columns of one with twice as many: its rows are as far apart as those of every second column."""
    return _beside(values, values.shape[-1])


def _begun_later(values: torch.Tensor) -> torch.Tensor | None:
    return _as(_unwritten(values, (values.numel() + 1,))[1:].view(values.shape), values)


def _exchanged(values: torch.Tensor, first: int, second: int) -> torch.Tensor | None:
    """The operand with two of its dimensions exchanged in memory."""
    if values.dim() < -min(first, second):
        return None
    return values.transpose(first, second).contiguous().transpose(first, second)


def _with_gaps(values: torch.Tensor) -> torch.Tensor | None:
    """The operand as the first part of one with more rows, heads and batches, so that no stride is another's multiple by size."""
    if values.dim() < 3:
        return None
    *leading, last = values.shape
    wider = _unwritten(values, [*(size + 1 for size in leading), last])
    return _as(wider[tuple(slice(size) for size in leading)], values)


def transposed(values: torch.Tensor) -> torch.Tensor | None:
    """The operand with its last two dimensions exchanged in memory."""
    return _exchanged(values, -1, -2)


def every_second(values: torch.Tensor) -> torch.Tensor | None:
    """The operand as every second column of a wider one; None for heads."""
    if values.dim() > 2:
        return None
    *leading, last = values.shape
    return _as(_unwritten(values, (*leading, 2 * last))[..., ::2], values)


LAYOUTS: Mapping[str, Move] = {
    "transposed": lambda values: transposed(values) if values.dim() == 2 else None,
    "heads-inside": lambda values: _exchanged(values, -2, -3),
    "with-gaps": _with_gaps,
    "padded": _padded,
    "every-second": every_second,
}
"""Layouts of an operand that is not packed. The last dimension of a head is contiguous, as flash-attention demands it."""

OFFSET: Mapping[str, Move] = {"offset": _begun_later}
"""Layouts of a packed operand."""


def packed_all(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the operands of a call, each packed."""
    return {
        name: each.contiguous() if isinstance(each, torch.Tensor) and name != "x" else each
        for name, each in given.items()
    }


def with_one(moved: str, move: Move, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns operands of which one is moved, and all others are packed; None if it can't be moved."""
    found = move(given[moved])
    return None if found is None else {**packed_all(given), moved: found}


def with_equal_pitches(stepped: str, halved: str, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns operands of which two have rows equally far apart, and one of the two has columns apart; None if they have other shapes."""
    first, second = given[stepped], given[halved]
    if first.dim() != 2 or first.shape != second.shape:
        return None
    return {**packed_all(given), stepped: every_second(first), halved: first_half(second)}


def _projected(given: Mapping[str, Any], *, fused: bool) -> Mapping[str, Any] | None:
    """Heads as projections leave them, [batch, length, heads, head_dim]; ``fused`` puts those of equal lengths into one tensor."""
    parts = {name: each for name, each in given.items() if without_layout(name) in {"q", "k", "v"}}
    if any(each.dim() != HEADS_DIMS for each in parts.values()):
        return None
    found = dict(given)
    by_length = {name: each if name.endswith("_blhd") else each.transpose(1, 2) for name, each in parts.items()}
    alike: dict[Any, list[str]] = {}
    for name, each in by_length.items():
        alike.setdefault((each.shape[:2], each.shape[3]) if fused else name, []).append(name)
    for names in alike.values():
        whole, first = torch.cat([by_length[name] for name in names], dim=2), 0
        for name in names:
            heads = by_length[name].shape[2]
            part, first = whole[:, :, first : first + heads], first + heads
            found[name] = part if name.endswith("_blhd") else part.transpose(1, 2)
    return found


HEADS: Mapping[str, Lay] = {
    "as-projections-leave-them": partial(_projected, fused=False),
    "in-one-projection": partial(_projected, fused=True),
}
"""Layouts of queries, keys and values together."""
