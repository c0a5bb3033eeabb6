"""Gradients of a softmax by the bias that is added to its scaled logits, a learnt one: a part of the probe ``gradients``.

Of softmax(s x + b) the gradient by x is s times that by b, so that one is held against the other, which is judged by itself.
"""

from collections.abc import Sequence
from typing import Any

import torch

from softcheck.calling import activity
from softcheck.calling.call import call_on_device, is_usable, place, synchronize
from softcheck.calling.state import preserved
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Subject
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled
from softcheck.variants.adapt import Adapted

_ROWS, _COLUMNS = 3, 33
_OF_SIZE = 2.0**-4
"""Part of the size of both gradients beyond which their difference is a wrong term and no rounding."""


def of_bias(subject: Subject) -> Outcome:
    """Compares the gradients by the input and by the bias; nothing is tried of a function without a bias or with a constant one."""
    setting, function, operation = subject.setting, subject.variant.function, subject.variant.operation
    if not isinstance(function, Adapted) or operation.arguments is None or not setting.takes(_COLUMNS):
        return Outcome()
    bits = ordinary_rows(_ROWS, _COLUMNS, setting.fmt, setting.seed)
    leaves: dict[str, torch.Tensor] = {}

    def differentiable(x: torch.Tensor, operands: dict[str, Any]) -> dict[str, Any]:
        bias = operands.get("bias")
        # A bias of zeros is one of the matrix's own size, whose gradient is that of each element.
        if isinstance(bias, torch.Tensor) and bias.is_floating_point() and bias.numel() == x.numel():
            leaves["bias"] = operands["bias"] = bias.detach().requires_grad_()
        return operands

    placed = place(bits, setting.fmt, PACKED, subject.device)
    placed.view.requires_grad_()
    with nan_filled():
        found = call_on_device(function.changing(differentiable), placed, setting.operation)
    if found.output is None or found.fatal or "bias" not in leaves or not found.output.requires_grad:
        return Outcome(fatal=found.fatal)
    grad = torch.randn(found.output.shape, generator=torch.Generator().manual_seed(setting.seed)).to(found.output)
    try:
        with preserved(), nan_filled(), activity.calling():
            asked: Sequence[torch.Tensor | None] = torch.autograd.grad(
                found.output, [placed.view, leaves["bias"]], grad, allow_unused=True
            )
            synchronize(subject.device)
    except Exception:  # noqa: BLE001 - nobody promises the gradient of a bias
        return Outcome(fatal=not is_usable(subject.device))
    by_x, by_bias = asked
    if by_x is None or by_bias is None:
        return Outcome()
    scaled = float(operation.parameters.get("scale", 1.0)) * by_bias.detach().double().flatten()
    by_input = by_x.detach().double().flatten()
    away, size = float((scaled - by_input).norm()), float(scaled.norm() + by_input.norm())
    if away <= _OF_SIZE * size:
        return Outcome()
    message = (
        f"the gradient by the bias, times the scale, is {away:.3g} away from that by the input, whose size is {float(by_input.norm()):.3g} "
        "(in the Euclidean norm); expected the same but for rounding"
    )
    return Outcome(violations=(Violation(FindingKind.WRONG_GRADIENT, message),))
