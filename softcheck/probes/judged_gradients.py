"""Gradients against the exact ones, and tensors that a backward must leave alone."""

import numpy as np
import torch
from numpy.typing import NDArray

from oracles.formats import FLOAT64, Bits, Format, Values, bits_hex, decode, format_of, widest
from softcheck.calling.call import to_bits
from softcheck.contract import FindingKind, Violation
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.gradient import Gradient, GradientErrors
from softcheck.operations.operation import Operation
from softcheck.operations.ulp import Flags
from softcheck.probes.backward import Forward
from softcheck.probes.base import Subject
from softcheck.probes.helpers import differing

_ROUNDINGS = 64
"""Roundings that a derivative of another kind may have, of the sum of its terms' sizes: far more than any rule or graph takes, and far
less than a wrong term."""
_MOST_ROWS, _MOST_ELEMENTS = 64, 2**13
"""Rows, and elements of at least two, of which the exact gradient is computed in rational numbers: of a taller matrix those that look worst."""


def judged(subject: Subject, one: Forward, gradient: torch.Tensor, grad: torch.Tensor, words: str) -> Violation | None:
    """Judges a gradient against the exact one for an output gradient. ``words`` say how the backward was called."""
    fmt = subject.setting.fmt
    found, grads = to_bits(gradient, fmt), decode(given := to_bits(grad, fmt), format_of(given, fmt))
    special = np.logical_not(np.isfinite(grads))
    is_special = np.logical_or.reduce(special, axis=1)
    shows = np.logical_or.reduce(special & _sees(subject.setting.operation, one.bits, fmt, special.shape), axis=1)
    silent = np.flatnonzero(shows & np.isfinite(decode(found, fmt)).all(axis=1))
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
    if not len(rows):
        return None
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
        f"{errors.exact[place, column]:.{17 if fmt == FLOAT64 else 9}g}: {errors.errors[place, column]:.6g} ULP of {judged_by(subject.setting.operation).scale}, "
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


def _sees(operation: Operation, bits: Bits, fmt: Format, shape: tuple[int, ...]) -> Flags:
    """Returns where an answer depends on its input: not in a part, such as a causal mask's first query, that sees no logit."""
    if operation.logits is None or not operation.answers_logits:
        return np.ones(shape, dtype=np.bool_)
    logits = operation.logits(decode(bits, fmt), fmt)
    blind = np.logical_and.reduce(np.isneginf(logits), axis=1, keepdims=True)
    seen: Flags = ~np.broadcast_to(blind, logits.shape).reshape(shape)
    return seen


def judged_together(subject: Subject, one: Forward, gradient: torch.Tensor) -> Violation | None:
    """Judges the gradient of one row that all rows of the input are: the sum of theirs, whichever of them it is attributed to."""
    fmt = subject.setting.fmt
    grads = one.grad.to(torch.float64).cpu().numpy()
    due = _errors(subject, one.bits, np.zeros(one.bits.shape), grads, one.arithmetic)
    found, exact = gradient.to(torch.float64).sum(dim=0).cpu().numpy(), due.exact.sum(axis=0)
    sizes = np.abs(due.exact) + due.limits / due.per_ulp
    # Each row's gradient may be rounded, and so may be each of their sums.
    allowed = (due.limits / due.per_ulp + 2 * len(sizes) * fmt.unit_roundoff * sizes).sum(axis=0)
    # Nothing is allowed in a column that no row sees.
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(np.isfinite(found), np.abs(found - exact) / allowed, np.inf)
        share = np.where((found == exact) | np.isposinf(allowed), 0.0, share)
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
    if not operation.answers_elements or not operation.hides_by_zero:
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


def allowed_roundings(columns: int, fmt: Format) -> float:
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
    size = judged_by(computed).size(torch.softmax(x.detach(), dim=1), g)
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
