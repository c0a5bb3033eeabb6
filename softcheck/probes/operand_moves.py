"""Layouts of a call's operands: of one while the others are packed, of heads together, and of one mask for several rows or heads."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import torch

from oracles.formats import Bits, Format, decode, encode
from softcheck.calling.operands import Change
from softcheck.operations.operation import Operation, without_layout
from softcheck.probes.space import strides

HEADS_DIMS = 4
"""Dimensions of heads, [batch, heads, length, head_dim], and of their masks."""
MASKS = frozenset({"mask", "keep", "bias"})
TOGETHER = "heads"
"""Stands for queries, keys and values where they are laid out together."""

Lay = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Returns all operands of a call by name, laid out otherwise; None if they can't be."""

_ANY, _MATRICES, _STACKS = range(1, HEADS_DIMS + 1), range(2, 3), range(3, HEADS_DIMS + 1)
_LAYOUTS: Mapping[str, tuple[range, strides.Strides]] = {
    "transposed": (_MATRICES, lambda shape: strides.exchanged(shape, -2, -1)),
    "heads-inside": (_STACKS, lambda shape: strides.exchanged(shape, -3, -2)),
    # No stride is another's multiple by size.
    "with-gaps": (_STACKS, lambda shape: strides.dense([*(size + 1 for size in shape[:-1]), shape[-1]])),
    "padded": (range(2, HEADS_DIMS + 1), lambda shape: strides.dense(shape, gaps={len(shape) - 1: 8})),
    "every-second": (range(1, 3), lambda shape: strides.dense(shape, step=2)),
    "offset": (_ANY, strides.dense),
    # Rows are as far apart as those of every second column.
    "first-half": (_MATRICES, lambda shape: strides.dense(shape, gaps={len(shape) - 1: shape[-1]})),
}
"""Layouts of one operand, and the numbers of dimensions that have them. The last dimension of a head is contiguous, as
flash-attention demands it."""


def moved(values: torch.Tensor, name: str) -> torch.Tensor:
    """Returns an operand in such a layout, in memory whose contents would show: NaN, the largest integer, or true."""
    found, offset = _LAYOUTS[name][1](values.shape), int(name == "offset")
    extent = 1 + offset + sum((size - 1) * step for size, step in zip(values.shape, found, strict=True))
    unwritten = float("nan") if values.is_floating_point() else True
    if not values.is_floating_point() and values.dtype != torch.bool:
        unwritten = torch.iinfo(values.dtype).max
    return values.new_full((max(extent, 0),), unwritten).as_strided(values.shape, found, offset).copy_(values)


def moves_of(name: str, dimensions: int, *, is_strided: bool) -> tuple[str, ...]:
    """Returns the layouts that an operand of this name and so many dimensions can have beside the packed one."""
    found = [each for each, (counts, _) in _LAYOUTS.items() if dimensions in counts]
    if without_layout(name) in MASKS and dimensions > 1:
        # The last dimension of a head is contiguous, and that of its mask need not be.
        found = list(dict.fromkeys(["transposed", *found]))
    return tuple(found) if is_strided else ("offset",)


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
            found[name] = moves_of(name, HEADS_DIMS if is_of_heads else len(own), is_strided=is_strided)
    return {**found, TOGETHER: (*HEADS,)} if is_of_heads and is_strided else found


def laid_out(given: Mapping[str, Any], moves: Mapping[str, str]) -> Mapping[str, Any]:
    """Returns the operands of a call with some in layouts that are named, and all others packed."""
    found = packed_all(given)
    for name, move in moves.items():
        if name == TOGETHER:
            found = HEADS[move](found) or found
        elif name in given and move in moves_of(name, given[name].dim(), is_strided=True):
            found = {**found, name: moved(given[name], move)}
    return found


class KeptOperands:
    """Tensors that calls were given beside their input, for later calls to be given with new values."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], torch.Tensor] = {}
        """The tensors by the number of the call of their step, name, shape, strides and dtype."""

    def change(self, lay: Change | None, *, rewrites: bool) -> Change:
        """Returns a change of one step's calls, one for each matrix that has one answer, which keeps the operands that ``lay`` makes.

        If it ``rewrites`` them, kept tensors of the same shape hold the new values, and are given in place of new ones. No call of
        a step gets the operands of another.
        """
        numbers = count()

        def changed(given: Mapping[str, Any]) -> Mapping[str, Any]:
            found, number = dict(given if lay is None else lay(given)), next(numbers)
            for name, value in found.items():
                if not isinstance(value, torch.Tensor):
                    continue
                key = number, name, tuple(value.shape), value.stride(), value.dtype
                kept = self._kept.setdefault(key, value)
                # Expanded rows share their memory, and torch writes to none such.
                if kept is value or not rewrites or 0 in value.stride() or kept.is_inference():
                    self._kept[key] = value
                    continue
                # Through ``data``, which leaves the tensor's version as it is: so do kernels that write to it.
                kept.data.copy_(value)
                found[name] = kept
            return found

        return changed


def packed_all(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the operands of a call, each packed."""
    return {
        name: each.contiguous() if isinstance(each, torch.Tensor) and name != "x" else each
        for name, each in given.items()
    }


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


def _of_one_prompt(given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Keys and values of a batch as views of the first's, where they are all equal, as sequences that begin alike share them."""
    shared = {name: each[:1].expand_as(each) for name, each in given.items() if without_layout(name) in {"k", "v"}}
    is_batch = all(len(each) > 1 and torch.equal(each, given[name]) for name, each in shared.items())
    return {**given, **shared} if is_batch else None


OF_ONE_PROMPT = "of-one-prompt"
HEADS: Mapping[str, Lay] = {
    "as-projections-leave-them": partial(_projected, fused=False),
    "in-one-projection": partial(_projected, fused=True),
    OF_ONE_PROMPT: _of_one_prompt,
}
"""Layouts of queries, keys and values together."""


_HIDDEN_EVERY = 3
OF_ALL_HEADS = "one for all of a batch"
_SHARED: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    OF_ALL_HEADS: lambda mask: mask[:, :1],
    f"{OF_ALL_HEADS} expanded": lambda mask: mask[:, :1],
    f"{OF_ALL_HEADS} and its queries expanded": lambda mask: mask[:, :1, :1],
    "one for all queries": lambda mask: mask[:, :, :1],
    "one for all": lambda mask: mask[(slice(1),) * max(1, mask.dim() - 2)],
    "one without leading dimensions": lambda mask: mask[(0,) * max(1, mask.dim() - 2)],
    "one expanded": lambda mask: mask[(slice(1),) * max(1, mask.dim() - 2)],
}
"""Ways to pass a mask that is the same for several rows; the last dimension of softmax's, and the last two of attention's, are its own.

In those that expand it has all dimensions in full, some of them with a stride of 0.
"""
SHARED = (*_SHARED,)
OF_QUERIES = ("one for all queries", f"{OF_ALL_HEADS} and its queries expanded")
"""Those that need a mask that hides the same keys from all queries."""
TAKEN_ONCE = tuple(words for words in SHARED if "expanded" not in words)


def with_shared_masks(given: Mapping[str, Any], words: str) -> Mapping[str, Any]:
    """Returns the operands of a call with one mask for several rows. What follows it in memory hides what it does not hide.

    Raises ValueError for masks that are not equal, or that have too few dimensions.
    """
    found = {**packed_all(given)}
    for name in (name for name in given if without_layout(name) in MASKS):
        mask, share = given[name], _SHARED[words]
        try:
            one = share(mask)
        except IndexError as error:
            raise ValueError(str(error)) from error
        if not torch.equal(one.broadcast_to(mask.shape), mask):
            raise ValueError("the rows' masks are not equal")
        is_bool = mask.dtype == torch.bool
        others = ~mask if is_bool else torch.where(mask == -torch.inf, 0.0, -torch.inf).to(mask.dtype)
        share(others).copy_(one)
        found[name] = share(others) if words in TAKEN_ONCE else share(others).expand_as(mask)
    return found


def rows_of_shared(bits: Bits, fmt: Format, rows_of_one: int, parameters: Mapping[str, Any]) -> Bits:
    """Returns rows of which as many one after the other have one mask: every third column is hidden, another one for each mask."""
    values = decode(bits, fmt)
    values = np.where(np.isneginf(values), 0.0, values)
    of_mask, columns = np.arange(len(values)) // rows_of_one, np.arange(values.shape[1])
    if parameters.get("masked", 1.0):
        # What a mask hides from single queries depends on the first logit.
        values[:, 0] = values[of_mask * rows_of_one, 0]
        values[(columns[None] + of_mask[:, None]) % _HIDDEN_EVERY == 0] = -np.inf
    if parameters.get("biased"):
        # A bias with numbers is drawn from a row, so that equal ones belong to equal rows.
        values = values[of_mask * rows_of_one]
    return encode(values, fmt)
