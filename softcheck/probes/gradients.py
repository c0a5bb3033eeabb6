"""Gradients of variants whose outputs carry one: against the exact backward, for output gradients of all layouts.

Several forward calls come first, and their backward calls then follow in reverse order, as in a model: what a backward
needs must be its own. That an output carries a gradient, and that its backward can be called, is asked only of a variant
that declares ``backward=True``; one that declares False is not tried.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import torch

from oracles.formats import Bits, Values, bits_hex, decode, encode
from softcheck.calling import activity
from softcheck.calling.call import call_on_device, is_usable, place, synchronize, to_bits, to_tensor
from softcheck.calling.state import preserved
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import FindingKind, Violation
from softcheck.judge.contracts import contract_of
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.gradient import GradientErrors
from softcheck.probes.base import Setting, Subject, Trial
from softcheck.probes.helpers import GroupedProbe, ordinary_rows, wrong_values
from softcheck.probes.layouts import strided_layouts
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled

_GRADS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "varying": lambda grad: grad,
    "transposed": lambda grad: grad.t().contiguous().t(),
    "every second column of a wider matrix": lambda grad: torch.stack([grad, grad * float("nan")], dim=2)[..., 0],
    "one row expanded to all": lambda grad: grad[:1].expand(grad.shape),
    "one number expanded to all": lambda grad: grad[:1, :1].expand(grad.shape),
    "one number for each row": lambda grad: grad[:, :1].expand(grad.shape),
}
"""Output gradients in their layouts, made from varying ones."""


@dataclass(frozen=True, slots=True)
class _Forward:
    """One forward call: its input, its output, and the output gradient that is to come."""

    bits: Bits
    x: torch.Tensor
    output: torch.Tensor
    words: str
    grad: torch.Tensor
    arithmetic: Arithmetic


class _Gradients(GroupedProbe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        if setting.operation.gradient_errors is None or setting.declaration.backward is False:
            return []
        shapes = [(3, 129), (2, 1100)] if not setting.on_gpu else [(3, 129), (33, 64), (2, 2050)]
        found = {f"packed-{rows}x{columns}": (rows, columns, PACKED) for rows, columns in shapes}
        if "strided" in setting.declaration.layouts:
            strided = strided_layouts(3, 129)
            found |= {f"{name}-3x129": (3, 129, strided[name]) for name in ("transposed", "row-step")}
        return [Trial(label, asked) for label, asked in found.items() if setting.takes(asked[1])]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        rows, columns, layout = trial.parameters
        made: list[_Forward] = []
        for number, words in enumerate(_GRADS):
            found = _forward(subject, (rows, columns), layout, number, words)
            if not isinstance(found, _Forward):
                return found
            made.append(found)
        for one in reversed(made):
            outcome = _backward(subject, one)
            if outcome.violations or outcome.skipped or outcome.fatal:
                return outcome
        return Outcome()


PROBE = _Gradients()


def _forward(subject: Subject, shape: tuple[int, int], layout: Layout, number: int, words: str) -> _Forward | Outcome:
    """Makes a forward call; an outcome if its output is wrong, which other probes report, or carries no gradient."""
    fmt, seed = subject.setting.fmt, subject.setting.seed
    bits = ordinary_rows(*shape, fmt, (seed + 2 * number) % 2**32)
    peak, masked = encode(np.array([9.0, -np.inf]), fmt)
    bits[0, -1] = peak
    bits[1, 1::3] = masked
    placed = place(bits, fmt, layout, subject.device)
    placed.view.requires_grad_()
    with nan_filled():
        returned = call_on_device(subject.variant.function, placed)
    if returned.output is None:
        refused = "; ".join(each.message for each in returned.violations)
        return _not_asked(
            subject, FindingKind.RAISED, f"an input that requires one is refused: {refused}", returned.fatal
        )
    if not returned.output.requires_grad and subject.setting.declaration.backward:
        return _not_asked(subject, FindingKind.WRONG_GRADIENT, _NONE_CARRIED, returned.fatal)
    is_wrong = bool(wrong_values(subject, bits, to_bits(returned.output, fmt), returned))
    if is_wrong or not returned.output.requires_grad or returned.fatal:
        return Outcome(fatal=returned.fatal)
    # A library may add in any order; a kernel of the variant's own may rescale a running sum, whether it is declared or not.
    of_library = returned.of_cpu_library
    own = contract_of(subject.setting.declaration.arithmetic, of_cpu_library=of_library)
    arithmetic = msgspec.structs.replace(own, rescales=not of_library or own.rescales)
    varying = to_tensor(ordinary_rows(*shape, fmt, (seed + 2 * number + 1) % 2**32), fmt, subject.device)
    return _Forward(bits, placed.view, returned.output, words, _GRADS[words](varying), arithmetic)


_NONE_CARRIED = (
    "the output carries none, and --backward or backward=True promises one: launch the kernel in the forward of a "
    "torch.autograd.Function that has a backward, or leave the promise out"
)


def _not_asked(subject: Subject, kind: FindingKind, why: str, fatal: bool) -> Outcome:  # noqa: FBT001 - of a private function
    """A finding where gradients are promised; else a trial that is left out."""
    if subject.setting.declaration.backward:
        return Outcome(violations=(Violation(kind, f"gradients: {why}"),), fatal=fatal)
    return Outcome(skipped=f"gradients: {why}", fatal=fatal)


def _backward(subject: Subject, one: _Forward) -> Outcome:
    try:
        with preserved(), nan_filled(), activity.calling():
            (gradient,) = torch.autograd.grad(one.output, one.x, one.grad)
            synchronize(subject.device)
    except Exception as error:  # noqa: BLE001 - a backward that raises is not silently wrong
        said = f"the backward raises {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return _not_asked(subject, FindingKind.RAISED, said, not is_usable(subject.device))
    fmt = subject.setting.fmt
    found, grads = to_bits(gradient, fmt), to_bits(one.grad, fmt)
    errors = _errors(subject, one, decode(found, fmt), decode(grads, fmt))
    broken = ~(errors.errors <= errors.limits)
    if not broken.any():
        return Outcome()
    share = np.where(broken, errors.errors / errors.limits, 0.0)
    row, column = (int(place) for place in np.unravel_index(np.argmax(share), share.shape))
    message = (
        f"output gradient {one.words}, after the forwards of {len(_GRADS)} inputs: row {row}, column {column}: "
        f"{decode(found, fmt)[row, column]:.9g} (bits {bits_hex(found[row, column], fmt)}), expected "
        f"{errors.exact[row, column]:.17g}: {errors.errors[row, column]:.6g} ULP of y (|g| + sum y |g|), "
        f"bound {errors.limits[row, column]:.6g} ULP"
    )
    witness = Violation(
        FindingKind.WRONG_GRADIENT,
        message,
        count=int(broken.sum()),
        row=row,
        column=column,
        input_bits=bits_hex(one.bits[row, column], fmt),
        output_bits=bits_hex(found[row, column], fmt),
        share=float(share[row, column]),
    )
    return Outcome(violations=(witness,))


def _errors(subject: Subject, one: _Forward, found: Values, grads: Values) -> GradientErrors:
    fmt, logits = subject.setting.fmt, decode(one.bits, subject.setting.fmt)
    computed = subject.setting.operation
    assert computed.gradient_errors is not None
    answer = computed.prove(logits, subject.setting.declaration.fully_masked)
    return computed.gradient_errors(found, grads, logits, answer, fmt, one.arithmetic)
