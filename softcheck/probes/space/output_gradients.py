"""Output gradients by name, and ways to ask for a gradient: the values of the axes ``gradient`` and ``asked``."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import torch

from softcheck.probes.operand_moves import moved

VARYING = "varying"


def _cancelling(grad: torch.Tensor) -> torch.Tensor:
    """Returns gradients that cancel exactly in each row, as those of a loss of pairs do; of one answer for each row the same."""
    columns = grad.shape[1]
    if columns < 2:
        return grad
    pair = torch.zeros(columns, dtype=grad.dtype, device=grad.device)
    pair[columns // 3], pair[columns - 1] = 1.0, -1.0
    return grad[:, :1] * pair


def _of_a_mask(grad: torch.Tensor) -> torch.Tensor:
    """Returns ones and zeros, a one first, as the sum of what a mask leaves has them."""
    place = torch.arange(grad.numel(), device=grad.device).view(grad.shape)
    return (place % 3 == 0).to(grad.dtype)


def _of_some_rows(grad: torch.Tensor) -> torch.Tensor:
    """Returns gradients with no number but 0 in the first row, two in the second and one in each other: as many as rows."""
    found, row = torch.zeros_like(grad), torch.arange(len(grad), device=grad.device)
    column = (7 * row) % grad.shape[1]
    found[row, column] = grad[row, column]
    found[1:2, -1:] = 1.0
    found[:1] = 0.0
    return found


def _special(grad: torch.Tensor) -> torch.Tensor:
    """Returns gradients with a NaN in the second row, as an overflow before makes them; the same where there is one for each row."""
    if grad.shape[1] < 2:
        return grad
    found = grad.clone()
    found[1:2, 0] = torch.nan
    return found


VALUES: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cancelling": _cancelling,
    "ones and zeros": _of_a_mask,
    "of some rows alone": _of_some_rows,
    "with a NaN": _special,
}
"""Output gradients made from varying ones, [rows, numbers]."""

LAYOUTS: Mapping[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "expanded": lambda grad, _: grad.flatten()[:1].view([1] * grad.dim()).expand(grad.shape),
    "one row expanded": lambda grad, _: grad[:1].expand(grad.shape) if grad.dim() > 1 else grad,
    "one number for each row": lambda grad, place: (
        grad.narrow(place, 0, 1).expand(grad.shape) if grad.dim() > 1 else grad
    ),
    "transposed": lambda grad, _: moved(grad, "transposed") if grad.dim() > 1 else grad,
    "every second column": lambda grad, _: moved(grad, "every-second"),
    "ones expanded": lambda grad, _: grad.new_ones(()).expand(grad.shape),
    "apart": lambda grad, _: moved(grad, "padded"),
}
"""Layouts of output gradients, from them and the dimension of the row."""

OF_ROWS = (VARYING, *(name for name in LAYOUTS if name not in {"ones expanded", "apart"}), *VALUES)
OF_HEADS = (VARYING, "ones expanded", "apart")

ONCE, TWICE, IN_TURN, BETWEEN, HIDDEN_LAYER, THREAD, PACKED, RECOMPUTED = (
    *("once", "twice", "in turn", "with other calls between", "of a hidden layer"),
    *("in another thread", "with saved tensors packed", "with the forward made again"),
)
INPUT_OVERWRITTEN, ANSWER_OVERWRITTEN = "with the input overwritten", "with the answer overwritten"
AGAIN, FORWARD_MODE, ALL_ANSWERS, BY_BIAS = "of the gradient", "in forward mode", "of all answers", "by the bias"
BY_SCALE = "by the scale"
SHARED_BIAS = "by a bias that batches share"
ONE_TENSOR = {"of one tensor for q; k and v": ("q", "k", "v"), "of one tensor for k and v": ("k", "v")}
"""Operands that are one tensor: nothing projects queries, keys and values, or a latent stands for keys and values."""

ALWAYS_OF_HEADS = (ONCE, TWICE, IN_TURN, BETWEEN, THREAD, PACKED, RECOMPUTED)
ALWAYS = (*ALWAYS_OF_HEADS, HIDDEN_LAYER, INPUT_OVERWRITTEN, ANSWER_OVERWRITTEN)
MAY_REFUSE = frozenset({PACKED, RECOMPUTED, INPUT_OVERWRITTEN, ANSWER_OVERWRITTEN, SHARED_BIAS})
"""Ways in which a backward may raise: a graph that watches for changes of its tensors refuses those that were overwritten."""
UNPROMISED = frozenset({SHARED_BIAS, *ONE_TENSOR})
"""Ways that nobody promises to take."""
OF_PLAIN_ROWS = frozenset({AGAIN, FORWARD_MODE, ALL_ANSWERS, BY_BIAS, BY_SCALE, *ONE_TENSOR})
"""Ways that are judged on ordinary rows, for varying output gradients."""
OF_ANY_DIMENSION = frozenset({AGAIN, FORWARD_MODE})
"""Those of them that are asked of tensors of any number of dimensions."""


def alone(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Returns ways to ask for one operand's gradient, or for those of two of the first three, each with these operands.

    The others are frozen then.
    """
    chosen = (*combinations(names, 1), *combinations(names[:3], 2))
    return {f"by {' and '.join(each)} alone": each for each in chosen}
