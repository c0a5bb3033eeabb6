"""One forward call and its backward: the gradient against the exact one, and tensors that a backward must leave alone."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from oracles.formats import Bits, Format, Values, bits_hex, decode, encode, format_of
from softcheck.calling import activity
from softcheck.calling.call import Placed, call_on_device, is_usable, place, synchronize, to_bits, to_tensor
from softcheck.calling.memory import refuse_lack
from softcheck.calling.state import preserved
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import FindingKind, Violation
from softcheck.judge.contracts import contract_of
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.gradient import Gradient, GradientErrors
from softcheck.operations.operation import Operation
from softcheck.operations.ulp import Flags
from softcheck.probes.base import Subject
from softcheck.probes.helpers import call_on, differing, ordinary_rows, prefixed, wrong_values
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled
from softcheck.variants.adapt import Adapted

_MOST_ROWS = 64
"""Rows of which the exact gradient is computed in rational numbers: of a taller matrix those that look worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientRequest:
    """One way of asking for gradients."""

    rows: int
    columns: int
    layout: Layout = PACKED
    is_leaf: bool = True
    """False if the input is the result of another operation, as a hidden layer's is."""
    overwritten: bool = False
    """True if the caller changes the input between forward and backward."""
    answer_overwritten: bool = False
    """True if the caller changes the output between forward and backward, as dropout in place does."""
    masked: bool = False
    """True if the last row is fully masked. Its gradient is 0 where its answer is, and is not judged elsewhere."""
    twice: bool = False
    """True if the backward is called twice for one forward."""
    packed: bool = False
    """True if what the forward saves is copied to packed memory until the backward, as offloading to the host does."""
    offset: float = 900.0
    """Number that is added to all logits of the third row, and subtracted in every second forward: it cancels in an answer, and not in
    what a backward keeps of it."""


@dataclass(frozen=True, slots=True)
class Forward:
    """One forward call: its input, its output, and an output gradient."""

    bits: Bits
    x: torch.Tensor
    output: torch.Tensor
    returned: Bits
    """The output's bits as they came."""
    words: str
    grad: torch.Tensor
    """A varying output gradient, packed."""
    arithmetic: Arithmetic
    of_own_input: list[torch.Tensor]
    """The gradients that reached what the call took in the matrix's place, behind a mask; none where it took the matrix."""


def forward(subject: Subject, asked: GradientRequest, number: int, words: str) -> Forward | Outcome:
    """Makes a forward call; an outcome if its output is wrong, which other probes report, or carries no gradient.

    The output gradient is a varying one of the output's shape; ``number`` tells the values of one forward from another's.
    """
    fmt, seed = subject.setting.fmt, subject.setting.seed
    shape = (asked.rows, asked.columns)
    bits = ordinary_rows(*shape, fmt, (seed + 2 * number) % 2**32)
    peak, masked = encode(np.array([9.0, -np.inf]), fmt)
    bits[0, -1] = peak
    bits[1, 1::3] = masked
    # A log-sum-exp below 0 too.
    bits[2:3] = encode(decode(bits[2:3], fmt) + (-asked.offset if number % 2 else asked.offset), fmt)
    if asked.masked:
        bits[-1] = masked
    if asked.layout.strides(asked.columns)[0] == 0:
        bits[:] = bits[:1]
    placed = place(bits, fmt, asked.layout, subject.device)
    placed.view.requires_grad_()
    if not asked.is_leaf:
        hidden = placed.view.clone()
        placed = Placed(hidden, hidden.detach().view(-1), fmt)
    function, of_own_input = _watched(subject, bits)
    with nan_filled(), saved_packed() if asked.packed else nullcontext():
        returned = call_on_device(function, placed, subject.setting.operation)
    if returned.output is None:
        refused = "; ".join(each.message for each in returned.violations)
        return _not_asked(
            subject, FindingKind.RAISED, f"an input that requires one is refused: {refused}", returned.fatal
        )
    if not returned.output.requires_grad and subject.setting.declaration.backward:
        return _not_asked(subject, FindingKind.WRONG_GRADIENT, _NONE_CARRIED, returned.fatal)
    found = to_bits(returned.output, fmt)
    if wrong := wrong_values(subject, bits, found, returned):
        return wrong_with_gradient(subject, bits, asked.layout, wrong)
    if not returned.output.requires_grad or returned.fatal:
        return Outcome(fatal=returned.fatal)
    # A library may add in any order; a kernel of the variant's own may rescale a running sum, whether it is declared or not.
    of_library = returned.of_cpu_library
    own = contract_of(subject.setting.declaration.arithmetic, of_cpu_library=of_library)
    arithmetic = msgspec.structs.replace(own, rescales=not of_library or own.rescales)
    if of_library and not subject.setting.operation.answers_elements and is_torchs_own(returned.output):
        # torch's losses for CPUs are made of its log-softmax, which rounds differences and exponentials to 16 bits.
        arithmetic = msgspec.structs.replace(arithmetic, intermediate="input")
    varying = to_tensor(ordinary_rows(*shape, fmt, (seed + 2 * number + 1) % 2**32), fmt, subject.device)
    varying = varying[:, : returned.output.shape[1]].contiguous().to(returned.output.dtype)
    return Forward(bits, placed.view, returned.output, found, words, varying, arithmetic, of_own_input)


def _watched(subject: Subject, bits: Bits) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """Returns the function, and the list of the gradients that will have reached what its calls take in the matrix's place."""
    function, operation = subject.variant.function, subject.variant.operation
    found: list[torch.Tensor] = []
    if not isinstance(function, Adapted) or operation.arguments is None:
        return function, found
    if not function.is_known:
        call_on(subject, bits)
    make = operation.arguments.make

    def made(x: torch.Tensor, names: frozenset[str]) -> Mapping[str, Any]:
        operands = make(x, names)
        own = operands.get("x")
        if isinstance(own, torch.Tensor) and own.requires_grad:
            own.register_hook(found.append)  # type: ignore[no-untyped-call]
        return operands

    return function.with_operation(replace(operation, arguments=replace(operation.arguments, make=made))), found


def saved_packed() -> AbstractContextManager[object]:
    """Copies each tensor that an operation saves for its backward to packed memory of its own, as offloading does."""
    return torch.autograd.graph.saved_tensors_hooks(
        lambda saved: saved.detach().clone(memory_format=torch.contiguous_format), lambda kept: kept
    )


def wrong_with_gradient(subject: Subject, bits: Bits, layout: Layout, wrong: Sequence[Violation]) -> Outcome:
    """Returns what is wrong of an answer that carries a gradient where one that carries none is right: others report the rest."""
    plain = call_on(subject, bits, layout)
    if plain.output is None or plain.fatal or wrong_values(subject, bits, plain.output, plain):
        return Outcome(fatal=plain.fatal)
    return Outcome(violations=prefixed(wrong, "where an input requires a gradient, and right where none does"))


def is_torchs_own(output: torch.Tensor) -> bool:
    """Returns True if torch has the backward of each operation behind an output, and no ``torch.autograd.Function`` has one."""
    seen: set[Any] = set()
    left: list[Any] = [output.grad_fn]
    while left:
        node = left.pop()
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            return False
        if node is not None and node not in seen:
            seen.add(node)
            left += [before for before, _ in node.next_functions]
    return True


_NONE_CARRIED = (
    "the output carries none, and --backward or backward=True promises one: launch the kernel in the forward of a "
    "torch.autograd.Function that has a backward, or leave the promise out"
)


def _not_asked(subject: Subject, kind: FindingKind, why: str, fatal: bool) -> Outcome:  # noqa: FBT001 - of a private function
    """A finding where gradients are promised; else a trial that is left out."""
    if subject.setting.declaration.backward:
        return Outcome(violations=(Violation(kind, f"gradients: {why}"),), fatal=fatal)
    return Outcome(skipped=f"gradients: {why}", fatal=fatal)


def backward(subject: Subject, one: Forward, grad: torch.Tensor, *, keeps: bool) -> torch.Tensor | Outcome:
    """Calls the backward. Returns the gradient, or an outcome if it raises; ``keeps`` leaves the graph for another call."""
    try:
        with preserved(), nan_filled(), activity.calling():
            (gradient,) = torch.autograd.grad(one.output, one.x, grad, retain_graph=keeps)
            synchronize(subject.device)
    except Exception as error:  # noqa: BLE001 - a backward that raises is not silently wrong
        said = raised_in_backward(subject, error)
        return _not_asked(subject, FindingKind.RAISED, said, not is_usable(subject.device))
    return gradient


def raised_in_backward(subject: Subject, error: Exception) -> str:
    """Says what a backward raised. Raises torch.OutOfMemoryError as ``refuse_lack`` does."""
    refuse_lack(error, subject.device)
    return f"the backward raises {type(error).__name__}: {' '.join(str(error).split())[:200]}"


def judged(subject: Subject, one: Forward, gradient: torch.Tensor, grad: torch.Tensor, words: str) -> Violation | None:
    """Judges a gradient against the exact one for an output gradient. ``words`` say how the backward was called."""
    fmt = subject.setting.fmt
    found, grads = to_bits(gradient, fmt), decode(given := to_bits(grad, fmt), format_of(given, fmt))
    is_special = np.logical_not(np.isfinite(grads).all(axis=1))
    silent = np.flatnonzero(is_special & np.isfinite(decode(found, fmt)).all(axis=1))
    if silent.size:
        message = (
            f"output gradient {one.words}, {words}: row {silent[0]}: it holds NaN or infinity, and the input's gradient is finite "
            "throughout; expected one that is not, as a loss scaler looks for it"
        )
        return Violation(FindingKind.WRONG_GRADIENT, message, count=len(silent), row=int(silent[0]))
    if violation := _of_hidden(subject, one, found, ~is_special, words):
        return violation
    rows = _worst_rows(subject.setting.operation, one.bits, found, grads, fmt)
    rows = rows[~is_special[rows]]
    errors = _errors(subject, one.bits[rows], decode(found[rows], fmt), grads[rows], one.arithmetic)
    broken = ~(errors.errors <= errors.limits)
    if not broken.any():
        return None
    share = np.where(broken, errors.errors / errors.limits, 0.0)
    place, column = (int(number) for number in np.unravel_index(np.argmax(share), share.shape))
    row = int(rows[place])
    message = (
        f"output gradient {one.words}, {words}: row {row}, column {column}: "
        f"{decode(found, fmt)[row, column]:.9g} (bits {bits_hex(found[row, column], fmt)}), expected "
        f"{errors.exact[place, column]:.17g}: {errors.errors[place, column]:.6g} ULP of {judged_by(subject.setting.operation).scale}, "
        f"bound {errors.limits[place, column]:.6g} ULP"
    )
    return Violation(
        FindingKind.WRONG_GRADIENT,
        message,
        count=int(broken.sum()),
        row=row,
        column=column,
        input_bits=bits_hex(one.bits[row, column], fmt),
        output_bits=bits_hex(found[row, column], fmt),
        share=float(share[place, column]),
    )


def judged_together(subject: Subject, one: Forward, gradient: torch.Tensor) -> Violation | None:
    """Judges the gradient of one row that all rows of the input are: the sum of theirs, whichever of them it is laid at."""
    fmt = subject.setting.fmt
    grads = decode(given := to_bits(one.grad, fmt), format_of(given, fmt))
    due = _errors(subject, one.bits, np.zeros(one.bits.shape), grads, one.arithmetic)
    found, exact = gradient.to(torch.float64).sum(dim=0).cpu().numpy(), due.exact.sum(axis=0)
    sizes = np.abs(due.exact) + due.limits / due.per_ulp
    # Each row's gradient may be rounded, and so may be each of their sums.
    allowed = (due.limits / due.per_ulp + 2 * len(sizes) * fmt.unit_roundoff * sizes).sum(axis=0)
    share = np.where(np.isfinite(found), np.abs(found - exact) / allowed, np.inf)
    if share.max() <= 1:
        return None
    column = int(share.argmax())
    message = (
        f"of {len(sizes)} rows that are one row expanded: column {column}: their gradients add up to {found[column]:.9g}, expected "
        f"{exact[column]:.9g} within {allowed[column]:.3g}"
    )
    return Violation(FindingKind.WRONG_GRADIENT, message, column=column, share=float(share[column]))


def _of_hidden(subject: Subject, one: Forward, found: Bits, looked_at: Flags, words: str) -> Violation | None:
    """Returns a violation if the gradient of a hidden logit is not 0, where the answer for one is 0 whatever it is.

    What a call takes behind a mask stands in the matrix's place, so that the gradient is that of the call's own input.
    """
    operation, fmt = subject.setting.operation, subject.setting.fmt
    if (
        not operation.answers_elements
        or operation.answer(np.full((1, 1), -np.inf), fmt, "zero").values[0, 0] != 0
        or not looked_at.any()
    ):
        return None
    hidden = np.isneginf(decode(one.bits, fmt))
    promised = looked_at & (~hidden.all(axis=1) | (subject.setting.declaration.fully_masked == "zero"))
    own = decode(to_bits(one.of_own_input[-1].reshape(hidden.shape), fmt) if one.of_own_input else found, fmt)
    wrong = (own != 0) & hidden & promised[:, None]
    if not wrong.any():
        return None
    row, column = (int(number) for number in np.argwhere(wrong)[0])
    message = (
        f"output gradient {one.words}, {words}: row {row}, column {column}: {own[row, column]:.9g}, expected 0: the column is hidden, "
        "and the answer does not depend on it"
    )
    return Violation(FindingKind.WRONG_GRADIENT, message, count=int(wrong.sum()), row=row, column=column)


def changed(subject: Subject, one: Forward) -> Violation | None:
    """Returns a violation if a backward has changed the output that the caller holds."""
    message = "the output that the caller holds changed in the backward"
    return differing(
        FindingKind.OUTPUT_REUSED, one.returned, to_bits(one.output, subject.setting.fmt), subject.setting.fmt, message
    )


def rewritten(subject: Subject, words: str, before: Bits, gradient: torch.Tensor) -> Violation | None:
    """Returns a violation if a gradient, whose bits were ``before`` when it came, has changed since."""
    fmt = subject.setting.fmt
    message = f"the gradient for the output gradient {words}, which the caller holds, changed in a later backward"
    return differing(FindingKind.OUTPUT_REUSED, before, to_bits(gradient, fmt), fmt, message)


def judged_by(computed: Operation) -> Gradient:
    """Returns how an operation's gradients are judged, where they are."""
    assert computed.gradient is not None
    return computed.gradient


def _worst_rows(computed: Operation, bits: Bits, found: Bits, grads: Values, fmt: Format) -> NDArray[np.int64]:
    """Returns the numbers of the rows to judge: of few all that are not fully masked, of many those furthest from float64's.

    A row whose answer nobody promises has no gradient either.
    """
    logits = decode(bits, fmt)
    left_out = np.logical_and.reduce(np.isneginf(logits), axis=1)
    if computed.undefined is not None:
        left_out |= computed.undefined(logits)
    if len(bits) <= _MOST_ROWS:
        return np.flatnonzero(~left_out)
    x, dx = (torch.from_numpy(decode(each, fmt)) for each in (bits, found))
    g = torch.from_numpy(grads)
    x.requires_grad_()
    (exact,) = torch.autograd.grad(computed.yardstick(x), x, g)
    size = judged_by(computed).size(torch.softmax(x.detach(), dim=1), g)
    share = ((dx - exact).abs() / (size + fmt.least_normal)).nan_to_num(nan=torch.inf).amax(dim=1)
    worst: NDArray[np.int64] = np.sort(share.argsort(descending=True)[:_MOST_ROWS].numpy())
    kept: NDArray[np.int64] = worst[~left_out[worst]]
    return kept


def _errors(subject: Subject, bits: Bits, found: Values, grads: Values, arithmetic: Arithmetic) -> GradientErrors:
    fmt, computed = subject.setting.fmt, subject.setting.operation
    logits = decode(bits, fmt)
    answer = computed.prove(logits, fmt, subject.setting.declaration.fully_masked)
    return judged_by(computed).errors(found, grads, logits, answer, fmt, arithmetic)
