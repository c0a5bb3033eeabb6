"""The gradient of the gradient, as a gradient penalty asks for it, where the backward's result carries one."""

from typing import cast

import numpy as np
import torch

from oracles.formats import Bits, Format, Values, bits_hex, decode, format_of
from softcheck.calling import activity
from softcheck.calling.call import is_usable, synchronize, to_bits, to_tensor
from softcheck.calling.state import preserved
from softcheck.contract import FindingKind, Violation
from softcheck.operations.operation import Operation
from softcheck.probes.backward import Forward, GradientRequest, forward
from softcheck.probes.base import Subject
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.judged_gradients import allowed_roundings, judged_by
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled

_MISSING = (
    "the gradient's own gradient by the input is silently missing: the backward detaches the probabilities; save the "
    "output by save_for_backward, or mark the backward with torch.autograd.function.once_differentiable"
)


def of_second_derivative(subject: Subject) -> Outcome:
    """Differentiates sum w dx by x, dx the gradient for g, w fixed. A backward that refuses it, or leaves no graph, passes.

    A backward written by hand often leaves a graph for g alone. That is a finding where ``backward=True`` promises
    gradients, and a note elsewhere.
    """
    if judged_by(subject.setting.operation).second is None:
        return Outcome(
            skipped=f"second derivatives of {subject.setting.operation.name} with these parameters are not judged"
        )
    columns = 63 if subject.setting.takes(63) else 1
    one = forward(subject, GradientRequest(rows=3, columns=columns, offset=0.0), 0, "varying")
    if not isinstance(one, Forward):
        return Outcome(fatal=one.fatal)
    fmt = subject.setting.fmt
    weights = to_tensor(ordinary_rows(3, columns, fmt, (subject.setting.seed + 2) % 2**32), fmt, subject.device)
    grad = one.grad.clone().requires_grad_()
    try:
        with preserved(), nan_filled(), activity.calling():
            (first,) = torch.autograd.grad(one.output, one.x, grad, create_graph=True)
            if not first.requires_grad:
                return Outcome()
            second = cast(
                "torch.Tensor | None",
                torch.autograd.grad(first, one.x, weights, allow_unused=True, retain_graph=True)[0],
            )
            if second is None:
                # once_differentiable leaves a node that raises, which a gradient by the input alone does not reach.
                torch.autograd.backward(first, weights)
            synchronize(subject.device)
    except Exception:  # noqa: BLE001 - a second backward that raises is not silently wrong
        return Outcome(fatal=not is_usable(subject.device))
    if second is None:
        words = _MISSING if subject.setting.declaration.backward else None
        return Outcome(
            violations=() if words is None else (Violation(FindingKind.WRONG_GRADIENT, words),),
            skipped=None if words else _MISSING,
        )
    grads = decode(given := to_bits(grad, fmt), format_of(given, fmt))
    message = _wrong(subject.setting.operation, one.bits, grads, to_bits(weights, fmt), second, fmt)
    return Outcome(violations=() if message is None else (Violation(FindingKind.WRONG_GRADIENT, message),))


def _wrong(
    computed: Operation, bits: Bits, grads: Values, weights: Bits, second: torch.Tensor, fmt: Format
) -> str | None:
    """Compares a second derivative with torch's in float64, in units of its terms."""
    x, w = (torch.from_numpy(decode(each, fmt)) for each in (bits, weights))
    g = torch.from_numpy(grads)
    x.requires_grad_()
    (dx,) = torch.autograd.grad(computed.yardstick(x), x, g, create_graph=True)
    (exact,) = torch.autograd.grad(dx, x, w)
    second_size = judged_by(computed).second
    assert second_size is not None
    size = second_size(torch.softmax(x.detach(), dim=1), g, w).amax(dim=1, keepdim=True)
    allowed = size * allowed_roundings(x.shape[1], fmt)
    found = to_bits(second, fmt)
    off = (torch.from_numpy(decode(found, fmt)) - exact).abs()
    share = torch.where(off == 0, 0.0, off / allowed).nan_to_num(nan=torch.inf).numpy()
    if share.max() <= 1:
        return None
    row, column = (int(number) for number in np.unravel_index(np.argmax(share), share.shape))
    return (
        f"the gradient of sum w dx: row {row}, column {column}: {decode(found, fmt)[row, column]:.9g} (bits "
        f"{bits_hex(found[row, column], fmt)}), expected {float(exact[row, column]):.9g} within {float(allowed[row, 0]):.3g}"
    )
