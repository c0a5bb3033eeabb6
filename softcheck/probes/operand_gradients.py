"""Gradients of attention by its operands, against the exact backward: a part of the probe ``gradients``."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import torch

from oracles.formats import Bits, Values, decode
from oracles.reference import RowClass, classify
from softcheck.calling import activity
from softcheck.calling.call import call_on_device, place, synchronize, to_bits, to_tensor
from softcheck.calling.state import preserved
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind, Violation
from softcheck.judge.contracts import contract_of
from softcheck.operations.bounds import model
from softcheck.operations.heads import heads_first
from softcheck.operations.operation import Operation, without_layout
from softcheck.probes.backward import lost, raised_in_backward, reaches, wrong_with_gradient
from softcheck.probes.base import Subject
from softcheck.probes.head_shapes import of_other_heads
from softcheck.probes.helpers import ordinary_rows, prefixed, wrong_values
from softcheck.probes.operand_moves import moved
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled
from softcheck.variants.adapt import Adapted

OPERANDS = ("q", "k", "v")
_CANDIDATES = 16
"""Rows for each head, some of which have queries that no mask leaves without keys."""
_QUERIES, _MANY = 20, 40
"""Queries of heads of 35 keys, of which the first see none where the last query sees all keys."""


@dataclass(frozen=True, slots=True)
class OperandRequest:
    """A way to ask for the gradients of heads."""

    heads: int
    keys: int
    kind: str = ""
    """One of ``_WORDS``; empty to ask by each operand alone too."""


@dataclass(frozen=True, slots=True)
class _Carried:
    """One forward call whose answer carries a gradient."""

    bits: Bits
    output: torch.Tensor
    leaves: dict[str, torch.Tensor]
    of_cpu_library: bool


_WORDS = {
    "expanded": "for the gradient of a sum, 1 expanded",
    "apart": "for an output gradient whose rows lie apart",
    "twice": "with retain_graph=True, twice",
    "in turn": "of two forwards, whose backwards come after both",
    "other queries": f"of {_QUERIES} queries",
    "more queries": f"of {_MANY} queries",
    "shared bias": "of a bias that all batches share",
}
"""Kinds of requests, and what a finding says of them."""
_OF_QUERIES = {"other queries": _QUERIES, "more queries": _MANY}
_SHARED = "shared bias"


def trials(operation: Operation, *, on_gpu: bool) -> dict[str, OperandRequest]:
    """Returns the ways to ask by name."""
    # Four heads are two of each of two batches.
    sizes = ((2, 130), (4, 600)) if on_gpu else ((4, 33), (2, 130))
    alone = {f"operands-{heads}x{keys}": OperandRequest(heads, keys) for heads, keys in sizes}
    known = operation.parameters
    is_any = not known["queries"] and not known["square"]
    kinds = [kind for kind in _WORDS if (is_any or kind not in _OF_QUERIES) and (known["biased"] or kind != _SHARED)]
    return alone | {f"operands-{kind.replace(' ', '-')}-3x35": OperandRequest(3, 35, kind) for kind in kinds}


def of_operands(subject: Subject, asked: OperandRequest) -> Outcome:
    """Judges gradients by all operands and, where ``asked`` says so, by each alone, as where the other ones are frozen.

    They are left out where the answer is wrong or carries no gradient.
    """
    if asked.kind in _OF_QUERIES:
        subject = of_other_heads(subject, {"queries": _OF_QUERIES[asked.kind]})
    rows = _rows(subject, asked, 2 if asked.kind == "in turn" else 1)
    if isinstance(rows, Outcome):
        return rows
    if asked.kind == _SHARED:
        # Two batches of equal heads, of which a bias drawn from their keys is one.
        rows = [np.concatenate([bits, bits]) for bits in rows]
        subject = _with_shared_bias(subject)
    found = asked_of(subject, rows, ["bias"] if asked.kind == _SHARED else OPERANDS, asked.kind)
    if asked.kind in {*_OF_QUERIES, _SHARED} and not any(v.share is not None for v in found.violations):
        # Nobody promises other queries than the declared ones, or a shared bias, so that a refusal is no finding.
        return Outcome(fatal=found.fatal)
    if asked.kind in _WORDS:
        return msgspec.structs.replace(found, violations=prefixed(found.violations, _WORDS[asked.kind]))
    is_over = found.violations or found.fatal or found.skipped is not None
    return found if is_over else _by_each(subject, rows)


def _with_shared_bias(subject: Subject) -> Subject:
    """Returns the subject whose calls get the bias of the first batch for all."""

    def shared(_x: torch.Tensor, given: dict[str, Any]) -> dict[str, Any]:
        return {name: part[:1] if name == "bias" else part for name, part in given.items()}

    return replace(subject, variant=subject.variant.changing(shared))


def _by_each(subject: Subject, rows: Sequence[Bits]) -> Outcome:
    known = subject.variant.operation.parameters
    constants = {"bias": bool(known["biased"]), "sinks": math.isfinite(float(known["sink"]))}
    for name in (*OPERANDS, *(name for name, is_there in constants.items() if is_there)):
        alone = asked_of(subject, rows, (name,))
        # A kernel may take a bias or sinks for constants.
        if alone.skipped is not None and name in OPERANDS:
            message = f"{alone.skipped}, where {name} alone asks for one; it is right where all operands do"
            return Outcome(violations=(Violation(FindingKind.WRONG_GRADIENT, message),), fatal=alone.fatal)
        if alone.violations or alone.fatal:
            return msgspec.structs.replace(
                alone, violations=prefixed(alone.violations, f"where {name} alone asks for one")
            )
    return Outcome()


def _rows(subject: Subject, asked: OperandRequest, forwards: int) -> list[Bits] | Outcome:
    """Returns the rows of some forwards. Each of their queries sees a key, or has an answer of 0 where that is declared."""
    setting, operation = subject.setting, subject.variant.operation
    drawn = ordinary_rows(_CANDIDATES * asked.heads, asked.keys, setting.fmt, setting.seed)
    assert operation.logits is not None
    taken: list[Bits] = []
    # Scores of all candidates would take long, and mostly the first are taken.
    for bits in np.split(drawn, _CANDIDATES):
        classes = classify(operation.logits(decode(bits, setting.fmt), setting.fmt)).reshape(len(bits), -1)
        is_zero = (classes == RowClass.FULLY_MASKED) & (setting.declaration.fully_masked == "zero")
        taken += list(bits[((classes == RowClass.ORDINARY) | is_zero).all(axis=1)])
        if len(taken) >= forwards * asked.heads:
            return list(np.stack(taken[: forwards * asked.heads]).reshape(forwards, asked.heads, -1))
    return Outcome(skipped="gradients: queries that see no key have an answer of NaN, whose gradient is not judged")


def asked_of(subject: Subject, rows: Sequence[Bits], names: Sequence[str], kind: str = "") -> Outcome:
    """Judges the gradients of forwards on these rows by these operands, in the order of the forwards."""
    fmt = subject.setting.fmt
    forwards = []
    for bits in rows:
        made = _forward(subject, bits, names)
        if isinstance(made, Outcome):
            return made
        forwards.append(made)
    for number, made in enumerate(forwards):
        shape = made.output.shape
        grad = _laid_out(
            to_tensor(ordinary_rows(shape[0], shape[1], fmt, subject.setting.seed + 1 + number), fmt, subject.device),
            kind,
        )
        for again in (False, True)[: 1 + (kind == "twice")]:
            try:
                with preserved(), nan_filled(), activity.calling():
                    keeps = kind == "twice" and not again
                    found: Sequence[torch.Tensor | None] = torch.autograd.grad(
                        made.output, list(made.leaves.values()), grad, retain_graph=keeps, allow_unused=True
                    )
                    synchronize(subject.device)
            except Exception as error:  # noqa: BLE001 - a backward that raises is not silently wrong
                refused = raised_in_backward(subject, error)
                return Outcome(fatal=refused.fatal) if again else refused
            for name, leaf, one in zip(made.leaves, made.leaves.values(), found, strict=True):
                if one is None:
                    # A kernel may take a bias or sinks for constants.
                    is_asked = without_layout(name) in OPERANDS and reaches(made.output, leaf)
                    return lost(subject, without_layout(name), is_in_graph=is_asked)
            grads = grad.to(torch.float64).cpu().numpy()
            gradients = {name: one.detach() for name, one in zip(made.leaves, found, strict=True) if one is not None}
            violations = _judged(subject, made, gradients, grads)
            if violations:
                return Outcome(violations=violations)
    return Outcome()


def _laid_out(grad: torch.Tensor, kind: str) -> torch.Tensor:
    """Returns an output gradient, [rows, numbers], in the layout of its kind, or 1 expanded."""
    if kind == "expanded":
        return torch.ones((), dtype=grad.dtype, device=grad.device).expand(grad.shape)
    return moved(grad, "padded") if kind == "apart" else grad


def with_leaves(function: Adapted, asking: Sequence[str]) -> tuple[Adapted, dict[str, torch.Tensor]]:
    """Returns the function on operands that require a gradient, those of the names asked for, and these operands once it is called."""
    leaves: dict[str, torch.Tensor] = {}

    def differentiable(_x: torch.Tensor, operands: dict[str, Any]) -> dict[str, Any]:
        leaves.update(
            {n: part.detach().requires_grad_() for n, part in operands.items() if without_layout(n) in asking}
        )
        return operands | leaves

    return function.changing(differentiable), leaves


def _forward(subject: Subject, bits: Bits, asking: Sequence[str]) -> _Carried | Outcome:
    setting, function, operation = subject.setting, subject.variant.function, subject.variant.operation
    if not isinstance(function, Adapted) or operation.arguments is None:
        return Outcome(skipped="gradients: the variant is called on the matrix itself")
    differentiable, leaves = with_leaves(function, asking)
    with nan_filled():
        placed = place(bits, setting.fmt, PACKED, subject.device)
        returned = call_on_device(differentiable, placed, setting.operation)
    if returned.output is None:
        refused = "; ".join(each.message for each in returned.violations)
        return msgspec.structs.replace(
            _none(subject, f"operands that require one are refused: {refused}"), fatal=returned.fatal
        )
    if returned.fatal:
        return Outcome(fatal=True)
    if not returned.output.requires_grad:
        return _none(subject, "the output carries none")
    if wrong := wrong_values(subject, bits, to_bits(returned.output, setting.fmt), returned):
        return wrong_with_gradient(subject, bits, PACKED, wrong)
    return _Carried(bits, returned.output, leaves, returned.of_cpu_library)


def _judged(subject: Subject, made: _Carried, found: dict[str, torch.Tensor], grads: Values) -> tuple[Violation, ...]:
    """The violation of the first operand whose gradient is wrong."""
    fmt, operation = subject.setting.fmt, subject.variant.operation
    assert operation.operand_gradients is not None
    own = contract_of(subject.setting.declaration.arithmetic, of_cpu_library=made.of_cpu_library)
    rows, columns = made.bits.shape
    due = operation.operand_gradients(decode(made.bits, fmt), grads, fmt, model(own, fmt))
    for name, gradient in found.items():
        exact, allowed = due[without_layout(name)]
        if gradient.numel() < exact.size:
            exact, allowed = (part.reshape(-1, gradient.numel()).sum(axis=0) for part in (exact, allowed))
            exact, allowed = (part.reshape(-1, *gradient.shape[-2:]) for part in (exact, allowed))
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
