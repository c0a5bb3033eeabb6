"""Gradients of attention by its queries, keys and values, against the exact backward: a part of the probe ``gradients``."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import torch

from oracles.formats import Bits, Values, decode
from softcheck.calling import activity
from softcheck.calling.call import call_on_device, is_usable, place, synchronize, to_bits, to_tensor
from softcheck.calling.memory import refuse_lack
from softcheck.calling.state import preserved
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind, Violation
from softcheck.judge.contracts import contract_of
from softcheck.operations.bounds import model
from softcheck.operations.heads import heads_first
from softcheck.operations.operation import without_layout
from softcheck.probes.base import Subject
from softcheck.probes.helpers import call_on, ordinary_rows, prefixed, wrong_values
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled
from softcheck.variants.adapt import Adapted

OPERANDS = ("q", "k", "v")


@dataclass(frozen=True, slots=True)
class _Carried:
    """One forward call whose answer carries a gradient."""

    bits: Bits
    output: torch.Tensor
    leaves: dict[str, torch.Tensor]
    of_cpu_library: bool


def of_operands(subject: Subject, rows: int, columns: int) -> Outcome:
    """Judges the gradients of one call by all operands, and of one call by each alone, as where the other ones are frozen.

    They are left out where the answer is wrong or carries no gradient.
    """
    found = _asked(subject, rows, columns, OPERANDS)
    if found.violations or found.fatal or found.skipped is not None:
        return found
    for name in OPERANDS:
        alone = _asked(subject, rows, columns, (name,))
        if alone.skipped is not None:
            message = f"{alone.skipped}, where {name} alone asks for one; it is right where all operands do"
            return Outcome(violations=(Violation(FindingKind.WRONG_GRADIENT, message),), fatal=alone.fatal)
        if alone.violations or alone.fatal:
            return msgspec.structs.replace(
                alone, violations=prefixed(alone.violations, f"where {name} alone asks for one")
            )
    return found


def _asked(subject: Subject, rows: int, columns: int, names: Sequence[str]) -> Outcome:
    """Judges the gradients of one call by these operands."""
    fmt = subject.setting.fmt
    made = _forward(subject, ordinary_rows(rows, columns, fmt, subject.setting.seed), names)
    if isinstance(made, Outcome):
        return made
    grad_bits = ordinary_rows(rows, made.output.shape[1], fmt, subject.setting.seed + 1)
    grad = to_tensor(grad_bits, fmt, subject.device)
    try:
        with preserved(), nan_filled(), activity.calling():
            found = torch.autograd.grad(made.output, list(made.leaves.values()), grad)
            synchronize(subject.device)
    except Exception as error:  # noqa: BLE001 - a backward that raises is not silently wrong
        refuse_lack(error, subject.device)
        said = f"the backward raises {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return msgspec.structs.replace(_none(subject, said), fatal=not is_usable(subject.device))
    return Outcome(
        violations=_judged(subject, made, dict(zip(made.leaves, found, strict=True)), decode(grad_bits, fmt))
    )


def _forward(subject: Subject, bits: Bits, asking: Sequence[str]) -> _Carried | Outcome:
    setting, function, operation = subject.setting, subject.variant.function, subject.variant.operation
    if not isinstance(function, Adapted) or operation.arguments is None:
        return Outcome(skipped="gradients: the variant is called on the matrix itself")
    # The first call finds how the function is called, which needs ordinary operands.
    call_on(subject, bits)
    make, leaves = operation.arguments.make, dict[str, torch.Tensor]()

    def made(x: torch.Tensor, names: frozenset[str]) -> dict[str, Any]:
        operands = dict(make(x, names))
        leaves.update(
            {n: part.detach().requires_grad_() for n, part in operands.items() if without_layout(n) in asking}
        )
        return operands | leaves

    differentiable = function.with_operation(replace(operation, arguments=replace(operation.arguments, make=made)))
    with nan_filled():
        placed = place(bits, setting.fmt, PACKED, subject.device)
        returned = call_on_device(differentiable, placed, setting.operation)
    if returned.output is None or returned.fatal:
        return Outcome(fatal=returned.fatal)
    if not returned.output.requires_grad:
        return _none(subject, "the output carries none")
    # Other probes report a wrong answer.
    is_wrong = bool(wrong_values(subject, bits, to_bits(returned.output, setting.fmt), returned))
    return Outcome() if is_wrong else _Carried(bits, returned.output, leaves, returned.of_cpu_library)


def _judged(subject: Subject, made: _Carried, found: dict[str, torch.Tensor], grads: Values) -> tuple[Violation, ...]:
    """The violation of the first operand whose gradient is wrong."""
    fmt, operation = subject.setting.fmt, subject.variant.operation
    assert operation.operand_gradients is not None
    own = contract_of(subject.setting.declaration.arithmetic, of_cpu_library=made.of_cpu_library)
    rows, columns = made.bits.shape
    due = operation.operand_gradients(decode(made.bits, fmt), grads, fmt, model(own, fmt))
    for name, gradient in found.items():
        exact, allowed = due[without_layout(name)]
        values = heads_first(name, gradient, rows).reshape(exact.shape).to(torch.float64).cpu().numpy()
        share = np.where(np.isfinite(values), np.abs(values - exact) / allowed, np.inf)
        if share.max(initial=0.0) <= 1:
            continue
        at = tuple(int(i) for i in np.unravel_index(np.argmax(share), share.shape))
        message = (
            f"gradient by {without_layout(name)} of {rows} heads of {columns} keys: head {at[0]}, place {at[1]}, column {at[2]}: "
            f"{values[at]:.9g}, expected {exact[at]:.17g} within {allowed[at]:.3g}: {share[at]:.3g} times the bound"
        )
        count, largest = int((share > 1).sum()), float(share[at])
        return (Violation(FindingKind.WRONG_GRADIENT, message, count=count, row=at[0], share=largest),)
    return ()


def _none(subject: Subject, why: str) -> Outcome:
    if subject.setting.declaration.backward:
        said = f"gradients: {why}; the declaration promises one"
        return Outcome(violations=(Violation(FindingKind.WRONG_GRADIENT, said),))
    return Outcome(skipped=f"gradients: {why}")
