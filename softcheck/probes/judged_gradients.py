"""Gradients, second derivatives and forward-mode ones against the exact ones."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from oracles.formats import FLOAT64, Bits, Format, Values, bits_hex, decode, format_of, widest
from softcheck.calling.call import to_bits
from softcheck.contract import FindingKind, Violation
from softcheck.judge.contracts import contract_of
from softcheck.operations.arithmetic import Arithmetic, model
from softcheck.operations.gradient import Gradient, GradientErrors
from softcheck.operations.heads import heads_first
from softcheck.operations.operation import Operation, without_layout
from softcheck.operations.ulp import Flags
from softcheck.probes.base import Subject

_ROUNDINGS = 64
"""Roundings that a derivative of another kind may have, of the sum of its terms' sizes: far more than any rule or graph takes, and far
less than a wrong term."""
_MOST_ROWS, _MOST_ELEMENTS = 64, 2**13
"""Rows, and elements of at least two, of which the exact gradient is computed in rational numbers: of a taller matrix those that look worst."""


def judged(
    subject: Subject,
    bits: Bits,
    gradient: torch.Tensor,
    grad: torch.Tensor,
    arithmetic: Arithmetic,
    words: str,
    own: torch.Tensor | None = None,
) -> Violation | None:
    """Judges a gradient against the exact one for an output gradient, each [rows, numbers]. ``words`` say how it was asked for.

    ``own`` is the gradient by what the call took in the matrix's place, behind a mask.
    """
    fmt = subject.setting.fmt
    found, grads = to_bits(gradient, fmt), decode(given := to_bits(grad, fmt), format_of(given, fmt))
    special = np.logical_not(np.isfinite(grads))
    is_special = np.logical_or.reduce(special, axis=1)
    shows = np.logical_or.reduce(special & _sees(subject.setting.operation, bits, fmt, special.shape), axis=1)
    silent = np.flatnonzero(shows & np.isfinite(decode(found, fmt)).all(axis=1))
    if silent.size:
        message = (
            f"{words}: row {silent[0]}: the output gradient holds NaN or infinity, and the input's gradient is finite "
            "throughout; expected one that is not, as a loss scaler looks for it"
        )
        return Violation(FindingKind.WRONG_GRADIENT, message, count=len(silent), row=int(silent[0]))
    behind_mask = found if own is None else to_bits(own, fmt)
    if violation := _of_hidden(subject, bits, behind_mask, ~is_special, words):
        return violation
    rows = _worst_rows(subject.setting.operation, bits, found, grads, fmt)
    rows = rows[~is_special[rows]]
    if not len(rows):
        return None
    errors = _errors(subject, bits[rows], decode(found[rows], fmt), grads[rows], arithmetic)
    due, numbers = errors.exact, decode(found[rows], fmt)
    overflows = np.isinf(numbers) & (np.sign(numbers) == np.sign(due))
    overflows &= np.abs(due) + errors.limits / errors.per_ulp > fmt.max
    broken = ~((errors.errors <= errors.limits) | overflows)
    if not broken.any():
        return None
    share = np.where(broken, errors.errors / errors.limits, 0.0)
    place, column = (int(number) for number in np.unravel_index(np.argmax(share), share.shape))
    row = int(rows[place])
    message = (
        f"{words}: row {row}, column {column}: {decode(found, fmt)[row, column]:.9g} (bits {bits_hex(found[row, column], fmt)}), expected "
        f"{errors.exact[place, column]:.{17 if fmt == FLOAT64 else 9}g}: {errors.errors[place, column]:.6g} ULP of {judged_by(subject.setting.operation).scale}, "
        f"bound {errors.limits[place, column]:.6g} ULP"
    )
    return Violation(
        FindingKind.WRONG_GRADIENT,
        message,
        count=int(broken.sum()),
        row=row,
        column=column,
        input_bits=bits_hex(bits[row, column], fmt),
        output_bits=bits_hex(found[row, column], fmt),
        share=float(share[place, column]),
    )


def _sees(operation: Operation, bits: Bits, fmt: Format, shape: tuple[int, ...]) -> Flags:
    """Returns where an answer depends on its input: not in a part, such as a causal mask's first query, that sees no logit."""
    if operation.logits is None or not operation.answers_logits:
        return np.ones(shape, dtype=np.bool_)
    logits = operation.logits(decode(bits, fmt), fmt)
    blind = np.logical_and.reduce(np.isneginf(logits), axis=1, keepdims=True)
    seen: Flags = ~np.broadcast_to(blind, logits.shape).reshape(shape)
    return seen


def judged_together(
    subject: Subject, bits: Bits, gradient: torch.Tensor, grad: torch.Tensor, arithmetic: Arithmetic
) -> Violation | None:
    """Judges the gradient of one row that all rows of the input are: the sum of theirs, whichever of them it is attributed to."""
    fmt = subject.setting.fmt
    due = _errors(subject, bits, np.zeros(bits.shape), grad.to(torch.float64).cpu().numpy(), arithmetic)
    found, exact = gradient.to(torch.float64).sum(dim=0).cpu().numpy(), due.exact.sum(axis=0)
    sizes = np.abs(due.exact) + due.limits / due.per_ulp
    # Each row's gradient may be rounded, and so may be each of their sums.
    allowed = (due.limits / due.per_ulp + 2 * len(sizes) * fmt.unit_roundoff * sizes).sum(axis=0)
    words = f"the gradients of {len(sizes)} rows that are one row expanded add up"
    return _within(found, exact, allowed, words, ("column",))


def judged_operands(
    subject: Subject, bits: Bits, found: Mapping[str, torch.Tensor], grad: torch.Tensor, *, of_cpu_library: bool
) -> Violation | None:
    """Judges the gradients of heads by the operands that are named, and returns what is wrong of the first wrong one."""
    fmt, operation = subject.setting.fmt, subject.variant.operation
    assert operation.operand_gradients is not None
    own = contract_of(subject.setting.declaration.arithmetic, of_cpu_library=of_cpu_library)
    due = operation.operand_gradients(decode(bits, fmt), grad.to(torch.float64).cpu().numpy(), fmt, model(own, fmt))
    for name, gradient in found.items():
        exact, allowed = due[without_layout(name)]
        if gradient.numel() < exact.size:
            # One that batches or heads share.
            exact, allowed = (part.reshape(-1, gradient.numel()).sum(axis=0) for part in (exact, allowed))
            exact, allowed = (part.reshape(-1, *gradient.shape[-2:]) for part in (exact, allowed))
        values = heads_first(name, gradient, len(bits)).reshape(exact.shape).to(torch.float64).cpu().numpy()
        words = f"the gradient by {without_layout(name)} of {len(bits)} heads of {bits.shape[1]} keys"
        if wrong := _within(values, exact, allowed, words, ("head", "place", "column")):
            return wrong
    return None


def judged_forward_mode(subject: Subject, bits: Bits, along: Bits, tangent: torch.Tensor) -> Violation | None:
    """Judges a derivative along a direction, each [rows, columns], by torch's in float64."""
    fmt, yardstick = subject.setting.fmt, subject.setting.operation.yardstick
    of_float64, change = (torch.from_numpy(decode(each, fmt)) for each in (bits, along))
    # A row's numbers depend on that row alone.
    of_rows = [
        torch.autograd.functional.jacobian(yardstick, row[None], vectorize=True)[0, :, 0]  # type: ignore[no-untyped-call]
        for row in of_float64
    ]
    jacobian = torch.stack(of_rows)
    exact = (jacobian @ change[..., None])[..., 0].numpy()
    size = (jacobian.abs() @ change.abs()[..., None])[..., 0].numpy()
    values = tangent.detach().to(torch.float64).cpu().reshape(exact.shape).numpy()
    allowed = size * _allowed_roundings(bits.shape[1], fmt) + fmt.least_normal
    return _within(values, exact, allowed, "the forward-mode derivative along a tangent")


def judged_again(
    subject: Subject,
    bits: Bits,
    grad: torch.Tensor,
    weights: torch.Tensor,
    second: torch.Tensor,
    arithmetic: Arithmetic,
) -> Violation | None:
    """Judges the gradient of sum w dx, dx the gradient for ``grad`` and w the ``weights``, by torch's in float64."""
    fmt, computed = subject.setting.fmt, subject.setting.operation
    x, g, w = (each.detach().to(torch.float64).cpu() for each in (torch.from_numpy(decode(bits, fmt)), grad, weights))
    x.requires_grad_()
    (dx,) = torch.autograd.grad(computed.yardstick(x), x, g.reshape(len(bits), -1), create_graph=True)
    (exact,) = torch.autograd.grad(dx, x, w)
    judging = judged_by(computed)
    assert judging.second is not None
    size = judging.second(judging.probabilities(x.detach()), g.reshape(len(bits), -1), w).amax(dim=1, keepdim=True)
    # A probability, or a product with one, may be subnormal: it is off by a part of the least number, and is multiplied by g and w.
    largest = [1 + each.reshape(len(bits), -1).abs().amax(dim=1, keepdim=True) for each in (g, w)]
    least = _ROUNDINGS * fmt.least_subnormal * largest[0] * largest[1]
    relative = _allowed_roundings(x.shape[1], fmt)
    if arithmetic.intermediate == "input":
        # exp / sum^2 is off by half of the least number at each column: times the sum, and added up over the columns.
        relative += x.shape[1] ** 2 * fmt.least_subnormal
    allowed = (size * relative + least).expand_as(exact)
    values = second.detach().to(torch.float64).cpu().numpy()
    return _within(values, exact.numpy(), allowed.numpy(), "the gradient of sum w dx")


def _within(
    found: Values, exact: Values, allowed: Values, words: str, axes: Sequence[str] = ("row", "column")
) -> Violation | None:
    """Returns the violation of the number that is furthest beyond what is allowed. Nothing need be where nothing is allowed."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(np.isfinite(found), np.abs(found - exact) / allowed, np.inf)
        share = np.where((found == exact) | np.isposinf(allowed), 0.0, share)
    if share.max(initial=0.0) <= 1:
        return None
    at = tuple(int(i) for i in np.unravel_index(np.argmax(share), share.shape))
    where = ", ".join(f"{axis} {place}" for axis, place in zip(axes, at, strict=False))
    message = f"{words}: {where}: {found[at]:.9g}, expected {exact[at]:.17g} within {allowed[at]:.3g}: {share[at]:.3g} times the bound"
    count, row = int((share > 1).sum()), at[0] if axes[0] in ("row", "head") else None
    return Violation(FindingKind.WRONG_GRADIENT, message, count=count, row=row, share=float(share[at]))


def _of_hidden(subject: Subject, bits: Bits, found: Bits, looked_at: Flags, words: str) -> Violation | None:
    """Returns a violation if the gradient of a hidden logit is not 0, where the answer for one is 0 whatever it is."""
    operation, fmt = subject.setting.operation, subject.setting.fmt
    if not operation.answers_elements or not operation.hides_by_zero:
        return None
    hidden = np.isneginf(decode(bits, fmt))
    promised = looked_at & (~hidden.all(axis=1) | (subject.setting.declaration.fully_masked == "zero"))
    own = decode(found.reshape(hidden.shape), fmt)
    wrong = (own != 0) & hidden & promised[:, None]
    if not wrong.any():
        return None
    row, column = (int(number) for number in np.argwhere(wrong)[0])
    message = f"{words}: row {row}, column {column}: {own[row, column]:.9g}, expected 0: the column is hidden, and the answer does not depend on it"
    return Violation(FindingKind.WRONG_GRADIENT, message, count=int(wrong.sum()), row=row, column=column)


def _allowed_roundings(columns: int, fmt: Format) -> float:
    """Returns the relative error that a second or a forward-mode derivative of a row may have, of the sum of its terms' sizes."""
    return _ROUNDINGS * fmt.unit_roundoff + columns * widest(fmt).unit_roundoff


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
        left_out |= computed.undefined(logits, fmt)
    most = min(_MOST_ROWS, max(2, _MOST_ELEMENTS // max(1, bits.shape[1])))
    if len(bits) <= most:
        return np.flatnonzero(~left_out)
    x, dx = (torch.from_numpy(decode(each, fmt)) for each in (bits, found))
    g = torch.from_numpy(grads)
    x.requires_grad_()
    (exact,) = torch.autograd.grad(computed.yardstick(x), x, g)
    judging = judged_by(computed)
    size = judging.size(judging.probabilities(x.detach()), g)
    share = ((dx - exact).abs() / (size + fmt.least_normal)).nan_to_num(nan=torch.inf).amax(dim=1)
    worst: NDArray[np.int64] = np.sort(share.argsort(descending=True)[:most].numpy())
    kept: NDArray[np.int64] = worst[~left_out[worst]]
    return kept


def _errors(subject: Subject, bits: Bits, found: Values, grads: Values, arithmetic: Arithmetic) -> GradientErrors:
    fmt, computed = subject.setting.fmt, subject.setting.operation
    logits, masked = decode(bits, fmt), subject.setting.declaration.fully_masked
    answer = computed.answer(logits, fmt, masked)
    judged = judged_by(computed).errors(found, grads, logits, answer, fmt, arithmetic)
    if fmt != FLOAT64 and not judged.doubtful.size:
        return judged
    return judged_by(computed).errors(found, grads, logits, computed.prove(logits, fmt, masked), fmt, arithmetic)
