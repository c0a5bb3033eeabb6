"""Masks of a softmax as arguments of its call: they hide what is -inf in the matrix, behind whatever may stand there.

A kernel that gets a mask is given the matrix with other values in the hidden places. Its answer is that of the matrix as it
was, so everything that is known of rows with -inf holds for rows with masks.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from softcheck.operations.operation import Arguments, Named, Operand, Operation, beside, of_matrix

if TYPE_CHECKING:
    import torch

MASKS = frozenset({"mask", "keep", "bias"})


def _behind(x: "torch.Tensor", *, finite: bool) -> "torch.Tensor":
    """Values that must not be seen, one for each column: NaN, infinity, and the largest numbers, if they may be so."""
    import torch

    largest = torch.finfo(x.dtype).max
    values = [largest, -largest, 0.0, 1000.0] if finite else [float("nan"), float("inf"), largest, 0.0, -largest]
    return torch.tensor(values, dtype=x.dtype).to(x.device).repeat(-(-x.shape[-1] // len(values)))[: x.shape[-1]]


def _part(x: "torch.Tensor") -> "torch.Tensor":
    """A part of each finite number that can be subtracted from it and added again without rounding, 0 of others.

    It is the first half of the number's digits or the second, by one of the digits: equal numbers have equal parts, since
    they may be one element of memory.
    """
    import torch

    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    half = (2 - math.frexp(torch.finfo(x.dtype).eps)[1]) // 2
    bits = x.contiguous().view(integers)
    first = (bits & -(1 << half)).view(x.dtype)
    return torch.where(x.isfinite(), torch.where((bits >> half) % 2 == 1, first, x - first), 0.0)


def _make(x: "torch.Tensor", names: frozenset[str], *, adds: bool, named: Named | None = None) -> Mapping[str, Any]:
    """Returns the masks, bool or of the matrix's dtype, and a matrix to be masked by them.

    A mask that is added turns any number into -inf, but not a NaN or an infinity. If it ``adds``, a part of what is visible
    comes with it. What is ``named`` stands behind the mask, or is added by it, in place of these. Masks of a packed matrix are packed; those of another have rows of their own distance, and what lies
    between these rows hides.
    """
    import torch

    asked = names & MASKS
    if not asked:
        return {}
    hidden = x.detach() == float("-inf")
    is_added = "bias" in asked
    added = of_matrix(named or {}, "bias", x) if is_added and adds else None
    if added is None:
        added = _part(x.detach()) if is_added and adds else torch.zeros_like(hidden, dtype=x.dtype)
    behind, given = _behind(x, finite=is_added), of_matrix(named or {}, "behind", x)
    if given is not None:
        # NaN and infinities stay what they are whatever is added to them.
        behind = torch.where(given.isfinite(), given, behind) if is_added else given
    masks: dict[str, Callable[[], torch.Tensor]] = {
        "mask": lambda: beside(x, hidden, True),
        "keep": lambda: beside(x, ~hidden, False),
        "bias": lambda: beside(x, torch.where(hidden, float("-inf"), added), float("-inf")),
    }
    seen = torch.where(hidden, behind, x - added)
    return {**{name: masks[name]() for name in asked}, "x": seen}


def trial(x: "torch.Tensor", names: frozenset[str]) -> "torch.Tensor":
    """Hides every third column, another one in each row."""
    import torch

    if not names & MASKS:
        return x
    rows, columns = (torch.arange(size, device=x.device) for size in x.shape)
    return x.masked_fill((rows[:, None] + columns) % 3 == 0, float("-inf"))


MASKING = Arguments(
    words={
        "mask attn_mask attention_mask": ("mask", "keep", "bias", "None"),
        "masked key_padding_mask padding_mask": ("mask", "keep", "bias", "None"),
        "keep valid valid_mask": ("keep", "mask", "bias", "None"),
        "bias attn_bias additive_mask": ("bias", "mask", "keep", "None"),
    },
    make=partial(_make, adds=True),
    trial=trial,
    operands=(
        Operand("mask", ("rows", "columns"), 1),
        Operand("keep", ("rows", "columns"), 1),
        Operand("bias", ("rows", "columns")),
    ),
)


def masked(given: "Mapping[str, torch.Tensor]") -> "torch.Tensor":
    """The logits of a softmax as torch makes them of an input and one mask."""
    x = given["x"]
    if "bias" in given:
        return x + given["bias"]
    if "mask" in given:
        return x.masked_fill(given["mask"], float("-inf"))
    return x.masked_fill(~given["keep"], float("-inf")) if "keep" in given else x


def with_masks(operation: Operation, named: Named) -> Operation:
    """Returns an operation whose masks hide and add what a case names."""
    assert operation.arguments is not None
    make = partial(operation.arguments.make, named=named)
    return operation.making(make)


HIDING = replace(MASKING, make=partial(_make, adds=False))
"""Masks alone, for an operation that would have to say if a bias is scaled too."""
