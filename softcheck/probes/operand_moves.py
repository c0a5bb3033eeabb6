"""Layouts of a call's operands: of one while the others are packed, and of queries, keys and values together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from softcheck.operations.operation import Operation, without_layout

HEADS_DIMS = 4
"""Dimensions of heads, [batch, heads, length, head_dim], and of their masks."""
MASKS = frozenset({"mask", "keep", "bias"})
TOGETHER = "heads"
"""Stands for queries, keys and values where they are laid out together."""

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


def _first_half(values: torch.Tensor) -> torch.Tensor:
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


def _transposed(values: torch.Tensor) -> torch.Tensor | None:
    """The operand with its last two dimensions exchanged in memory."""
    return _exchanged(values, -1, -2)


def _every_second(values: torch.Tensor) -> torch.Tensor | None:
    """The operand as every second column of a wider one; None for heads."""
    if values.dim() > 2:
        return None
    *leading, last = values.shape
    return _as(_unwritten(values, (*leading, 2 * last))[..., ::2], values)


LAYOUTS: Mapping[str, Move] = {
    "transposed": lambda values: _transposed(values) if values.dim() == 2 else None,
    "heads-inside": lambda values: _exchanged(values, -2, -3),
    "with-gaps": _with_gaps,
    "padded": _padded,
    "every-second": _every_second,
}
"""Layouts of an operand that is not packed. The last dimension of a head is contiguous, as flash-attention demands it."""

_PACKED: Mapping[str, Move] = {"offset": _begun_later}
"""Layouts of a packed operand."""
_OTHERS: Mapping[str, Move] = {"first-half": lambda values: _first_half(values) if values.dim() == 2 else None}
"""Layouts that tell something beside another operand's: rows are equally far apart, and columns are not."""


def moves_of(name: str, dimensions: int, *, is_strided: bool) -> Mapping[str, Move]:
    """Returns the layouts that an operand of this name and so many dimensions can have beside the packed one."""
    moves = {**_PACKED, **LAYOUTS, **_OTHERS} if is_strided else dict(_PACKED)
    if is_strided and without_layout(name) in MASKS:
        # The last dimension of a head is contiguous, and that of its mask need not be.
        moves["transposed"] = _transposed
    plain = torch.zeros((2,) * dimensions)
    return {each: move for each, move in moves.items() if move(plain) is not None}


def layouts_of_operands(operation: Operation, names: Iterable[str], *, is_strided: bool) -> dict[str, tuple[str, ...]]:
    """Returns the layouts of those of a call's operands that have rows, by name, and of heads together.

    Weights and sinks are a module's own, and packed.
    """
    optional = () if operation.arguments is None else operation.arguments.operands
    dims = {each.name: each.dims for each in (*operation.operands, *optional)}
    is_of_heads = {"q", "k", "v"} <= {operand.name for operand in operation.operands}
    found = {}
    for name in sorted(names):
        own = dims.get(without_layout(name), ())
        if "rows" in own:
            found[name] = (*moves_of(name, HEADS_DIMS if is_of_heads else len(own), is_strided=is_strided),)
    return {**found, TOGETHER: (*HEADS,)} if is_of_heads and is_strided else found


def laid_out(given: Mapping[str, Any], moves: Mapping[str, str]) -> Mapping[str, Any]:
    """Returns the operands of a call with some in layouts that are named, and all others packed."""
    found = packed_all(given)
    for name, move in moves.items():
        if name == TOGETHER:
            found = HEADS[move](found) or found
        elif name in given:
            own = given[name]
            moves_here = moves_of(name, own.dim(), is_strided=True)
            moved = moves_here[move](own) if move in moves_here else None
            found = found if moved is None else {**found, name: moved}
    return found


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
