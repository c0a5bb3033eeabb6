"""Gradients of attention whose operands are one tensor, against those of copies: a part of the probe ``gradients``.

Queries, keys and values are one tensor where nothing projects them, and keys and values are where a latent stands for both. The gradient
by that tensor is the sum of those by its copies, which are judged by themselves elsewhere.
"""

from collections.abc import Sequence
from typing import Any

import torch

from softcheck.calling import activity
from softcheck.calling.call import call_on_device, is_usable, place, synchronize
from softcheck.calling.state import preserved
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind, Violation
from softcheck.operations.operation import without_layout
from softcheck.probes.base import Subject
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled
from softcheck.variants.adapt import Adapted

_ROWS, _COLUMNS = 2, 33
_SHARED = (("q", "k", "v"), ("k", "v"))
_LOST = 2.0**-5
"""Part of the sizes of all gradients beyond which a difference is a term too few or too many, and no rounding."""


def of_one_tensor(subject: Subject) -> Outcome:
    """Compares the gradient by a tensor that is several operands with the sum of those by copies of it.

    Nothing is tried where the operands have different shapes, and a refusal is no finding.
    """
    setting = subject.setting
    if not isinstance(subject.variant.function, Adapted) or not setting.takes(_COLUMNS):
        return Outcome()
    for shared in _SHARED:
        try:
            with preserved(), nan_filled(), activity.calling():
                copies = _gradients(subject, shared, are_one=False)
                ones = _gradients(subject, shared, are_one=True)
                synchronize(subject.device)
        except Exception:  # noqa: BLE001 - nobody promises that operands may be one tensor
            return Outcome(fatal=not is_usable(subject.device))
        if not copies or not ones or not all(torch.isfinite(each).all() for each in (*copies, *ones)):
            continue
        sizes = [float(each.norm()) for each in copies]
        [one] = ones
        away = float((one - torch.stack(copies).sum(0)).norm())
        if away > _LOST * sum(sizes):
            message = (
                f"where {', '.join(shared)} are one tensor: its gradient is {away:.3g} away from the sum of those by its copies, whose "
                f"sizes are {', '.join(f'{size:.3g}' for size in sizes)} (in the Euclidean norm); expected the sum"
            )
            return Outcome(violations=(Violation(FindingKind.WRONG_GRADIENT, message),))
    return Outcome()


def _gradients(subject: Subject, shared: Sequence[str], *, are_one: bool) -> list[torch.Tensor]:
    """Returns the gradients by one tensor that is given for each shared operand, or by copies of it, in float64.

    The list is empty if the operands have different shapes, or if the answer carries no gradient.
    """
    setting, leaves = subject.setting, list[torch.Tensor]()

    def one(_x: torch.Tensor, operands: dict[str, Any]) -> dict[str, Any]:
        found = {name: part for name, part in operands.items() if without_layout(name) in shared}
        if len({part.shape for part in found.values()}) > 1:
            return operands
        first = next(part for name, part in found.items() if without_layout(name) == "k").detach()
        leaves.extend(first.clone().requires_grad_() for _ in range(1 if are_one else len(found)))
        return operands | {name: leaves[0 if are_one else at] for at, name in enumerate(found)}

    bits = ordinary_rows(_ROWS, _COLUMNS, setting.fmt, setting.seed)
    placed = place(bits, setting.fmt, PACKED, subject.device)
    output = call_on_device(subject.variant.changing(one).function, placed, setting.operation).output
    if output is None or not leaves or not output.requires_grad:
        return []
    grad = torch.randn(output.shape, generator=torch.Generator().manual_seed(setting.seed)).to(output)
    found = torch.autograd.grad(output, leaves, grad, allow_unused=True)
    return [one.detach().to(torch.float64) for one in found if one is not None]
