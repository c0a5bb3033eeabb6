"""Masks of a softmax as arguments of its call: they hide what is -inf in the matrix, behind whatever may stand there.

A kernel that gets a mask is given the matrix with other values in the hidden places. Its answer is that of the matrix as it
was, so everything that is known of rows with -inf holds for rows with masks.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from softcheck.operations.operation import Arguments

if TYPE_CHECKING:
    import torch

MASKS = frozenset({"mask", "keep", "bias"})


def _behind(x: "torch.Tensor", *, finite: bool) -> "torch.Tensor":
    """Values that must not be seen, one for each column: NaN, infinity, and the largest numbers, if they may be so."""
    import torch

    largest = torch.finfo(x.dtype).max
    values = [largest, -largest, 0.0, 1000.0] if finite else [float("nan"), float("inf"), largest, 0.0, -largest]
    return torch.tensor(values, dtype=x.dtype).to(x.device).repeat(-(-x.shape[-1] // len(values)))[: x.shape[-1]]


def _make(x: "torch.Tensor", names: frozenset[str]) -> Mapping[str, Any]:
    """Returns the masks, bool or of the matrix's dtype and packed, and a matrix to be masked by them.

    A mask that is added turns any number into -inf, but not a NaN or an infinity.
    """
    import torch

    asked = names & MASKS
    if not asked:
        return {}
    hidden = (x.detach() == float("-inf")).contiguous()
    zero = torch.zeros((), dtype=x.dtype, device=x.device)
    masks: dict[str, Callable[[], torch.Tensor]] = {
        "mask": lambda: hidden,
        "keep": lambda: ~hidden,
        "bias": lambda: torch.where(hidden, float("-inf"), zero).contiguous(),
    }
    return {**{name: masks[name]() for name in asked}, "x": torch.where(hidden, _behind(x, finite="bias" in asked), x)}


def _trial(x: "torch.Tensor", names: frozenset[str]) -> "torch.Tensor":
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
    make=_make,
    trial=_trial,
)
