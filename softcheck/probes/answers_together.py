"""Gradients of a function that returns several tensors, for output gradients of all of them at once: a part of the probe ``gradients``.

A derivative is linear in the output gradients, so that the gradient for all of them is the sum of those for each alone. An attention that
returns its log-sum-exps is asked for both where parts of the keys are merged.
"""

import torch

from softcheck.calling import activity, answers
from softcheck.calling.call import call_on_device, is_usable, place, synchronize
from softcheck.calling.state import preserved
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Subject
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.operand_gradients import OPERANDS, with_leaves
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled
from softcheck.variants.adapt import Adapted
from softcheck.variants.forms import parts_of

_ROWS, _COLUMNS = 2, 33
_OF_TOTAL, _OF_ONE = 2.0**-5, 0.1
"""Parts of the sizes of all gradients, and of the least of them, beyond which a difference is a lost term and no rounding."""


def of_answers_together(subject: Subject) -> Outcome:
    """Compares the gradient for all answers with the sum of those for each; nothing is tried of a function with one answer."""
    setting, function = subject.setting, subject.variant.function
    if not isinstance(function, Adapted) or not setting.takes(_COLUMNS):
        return Outcome()
    bits = ordinary_rows(_ROWS, _COLUMNS, setting.fmt, setting.seed)
    leaves: dict[str, torch.Tensor] = {}
    operation = subject.variant.operation
    if operation.operand_gradients is not None and operation.arguments is not None:
        function, leaves = with_leaves(function, OPERANDS)
    placed = place(bits, setting.fmt, PACKED, subject.device)
    if not leaves and operation.operand_gradients is None:
        placed.view.requires_grad_()
        leaves["x"] = placed.view
    with nan_filled(), answers.kept() as returned:
        found = call_on_device(function, placed, setting.operation)
    if found.output is None or found.fatal or not returned:
        return Outcome(fatal=found.fatal)
    parts = {
        name: part
        for name, part in parts_of(returned[-1]).items()
        if isinstance(part, torch.Tensor) and part.requires_grad and part.is_floating_point() and part.numel()
    }
    return _compared(subject, list(leaves.values()), parts) if len(parts) > 1 else Outcome()


def _compared(subject: Subject, leaves: list[torch.Tensor], parts: dict[str, torch.Tensor]) -> Outcome:
    generator = torch.Generator().manual_seed(subject.setting.seed)
    grads = {name: torch.randn(part.shape, generator=generator).to(part) for name, part in parts.items()}
    try:
        with preserved(), nan_filled(), activity.calling():
            alone = [_gradients([parts[name]], leaves, [grads[name]]) for name in parts]
            together = _gradients(list(parts.values()), leaves, list(grads.values()))
            synchronize(subject.device)
    except Exception:  # noqa: BLE001 - nobody promises the gradients of what stands beside the answer
        return Outcome(fatal=not is_usable(subject.device))
    if not all(torch.isfinite(each).all() for each in (*alone, together)):
        return Outcome()
    sizes = [float(one.norm()) for one in alone if one.any()]
    away = float((together - sum(alone)).norm())
    if len(sizes) < 2 or away <= max(_OF_TOTAL * sum(sizes), _OF_ONE * min(sizes)):
        return Outcome()
    message = (
        f"output gradients of {' and '.join(parts)} at once: the gradient is {away:.3g} away from the sum of those for each alone, whose "
        f"sizes are {', '.join(f'{size:.3g}' for size in sizes)} (in the Euclidean norm); expected the sum"
    )
    return Outcome(violations=(Violation(FindingKind.WRONG_GRADIENT, message),))


def _gradients(outputs: list[torch.Tensor], leaves: list[torch.Tensor], grads: list[torch.Tensor]) -> torch.Tensor:
    """Returns the gradients by all leaves, one behind the other in float64; 0 for a leaf that an output does not depend on."""
    found = torch.autograd.grad(outputs, leaves, grads, retain_graph=True, allow_unused=True)
    flat = [torch.zeros_like(leaf) if one is None else one for leaf, one in zip(leaves, found, strict=True)]
    return torch.cat([one.detach().to(torch.float64).flatten() for one in flat])
