"""The caller's input stays unchanged, and a returned output stays the caller's.

Inputs are compared byte for byte before and after each call (``calling.call``): contiguous, used again and again,
strided, expanded, with and without gradients asked for. Outputs must have memory of their own: neither the input's, nor
a buffer that the next call writes to.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from oracles.formats import Bits
from softcheck.calling.call import Called, Placed, call, call_on_device, place, to_bits
from softcheck.calling.operands import held_by_nobody
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import FindingKind, Violation
from softcheck.judge.by_contract import judge_call
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import differing, only, ordinary_rows, prefixed, repeats, stopped
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled

_ROWS, _COLUMNS = 3, 71
"""A shape that no other probe uses, so that the first call on it is the call that tunes and caches. A head has as many queries as columns."""


@dataclass(frozen=True, slots=True)
class _Way:
    """A way of placing and calling an input."""

    layout: Layout = PACKED
    context: Callable[[], AbstractContextManager[object]] = nullcontext
    needs_gradient: bool = False
    is_leaf: bool = True
    """False if another operation made the input, as in a model."""
    is_made_there: bool = False
    """True if the input is made in the context too, and the answer is judged: it may go another way."""


_WAYS = {
    "requires-grad": _Way(needs_gradient=True),
    "no-grad": _Way(context=torch.no_grad),
    "no-grad-in-a-model": _Way(context=torch.no_grad, needs_gradient=True, is_leaf=False),
    "held-by-nobody": _Way(context=held_by_nobody),
    "inference": _Way(context=torch.inference_mode, is_made_there=True),
}
_STRIDED_WAYS = {
    "padded-rows": _Way(layout=Layout(row_stride=_COLUMNS + 5)),
    "transposed": _Way(layout=Layout(row_stride=1, column_stride=_ROWS)),
    "expanded-rows": _Way(layout=Layout(row_stride=0)),
}


class InputUntouched(Probe):
    """Checks that the input keeps its bytes, and that outputs have memory of their own."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Puts the reused input first, so that its first call is the variant's first on this shape."""
        if not setting.takes(_COLUMNS):
            return [Trial("reused", 1), Trial("returned", 1)]
        # A row of one column may be its own answer.
        found = [Trial("reused", _COLUMNS), Trial("returned", _COLUMNS), Trial("returned/one-column", 1)]
        found += [Trial(f"called/{name}", way) for name, way in _WAYS.items()]
        if "strided" in setting.declaration.layouts:
            found += [Trial(f"called/{name}", way) for name, way in _STRIDED_WAYS.items()]
        return found

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Makes one trial, of three calls at most."""
        if trial.label == "reused":
            return _reused(subject, trial.parameters)
        if trial.label.startswith("returned"):
            return _returned(subject, trial.parameters)
        return _called(subject, trial.parameters)


def _reused(subject: Subject, columns: int) -> Outcome:
    """Calls three times on one tensor.

    No call may change it, and the first, which may tune, must agree with the others.
    """
    fmt = subject.setting.fmt
    placed = place(ordinary_rows(_ROWS, columns, fmt, subject.setting.seed), fmt, PACKED, subject.device)
    outputs: list[Bits] = []

    def again() -> Called:
        with nan_filled():
            return call(subject.variant.function, placed, subject.setting.operation)

    for _ in range(3):
        called = again()
        if called.output is None:
            return stopped(called)
        changed = only(called.violations, FindingKind.INPUT_MODIFIED, FindingKind.OUT_OF_BOUNDS_WRITE)
        if changed:
            return Outcome(violations=changed)
        outputs.append(called.output)
    found = differing(
        FindingKind.NONDETERMINISTIC,
        outputs[1],
        outputs[0],
        fmt,
        "the first call on a tensor differs from the second, and later ones agree",
    )
    if found is None or not repeats(outputs[2], lambda: again().output, fmt):
        # All is well, or the variant varies by itself, which another probe looks for.
        return Outcome()
    return Outcome(violations=(found,))


def _returned(subject: Subject, columns: int) -> Outcome:
    """Checks that the output has memory of its own, and that a later call on other data leaves it unchanged."""
    fmt, function = subject.setting.fmt, subject.variant.function
    kept = place(ordinary_rows(_ROWS, columns, fmt, subject.setting.seed), fmt, PACKED, subject.device)
    with nan_filled():
        first = call_on_device(function, kept, subject.setting.operation)
    if first.output is None:
        return stopped(first)
    before = to_bits(first.output, fmt)
    storage = first.output.untyped_storage().data_ptr()
    if storage == kept.storage.untyped_storage().data_ptr():
        return Outcome(violations=(_reuse("the output lies in the input's memory; expected memory of its own"),))
    for rows in (_ROWS, 1):
        # The same shape, for buffers kept by shape, and fewer rows, for a buffer kept for the largest input.
        other = place(ordinary_rows(rows, columns, fmt, subject.setting.seed + 1), fmt, PACKED, subject.device)
        with nan_filled():
            later = call_on_device(function, other, subject.setting.operation)
        if later.output is None:
            return stopped(later)
        message = f"an output changed when the variant was called again, on other data of shape [{rows}, {columns}]"
        changed = differing(FindingKind.OUTPUT_REUSED, before, to_bits(first.output, fmt), fmt, message)
        if changed is not None:
            return Outcome(violations=(changed,))
        if later.output.untyped_storage().data_ptr() == storage:
            where = "an output lies in the memory of one that an earlier call returned and that is still in use"
            return Outcome(violations=(_reuse(f"{where}; expected memory of its own"),))
    return Outcome()


def _reuse(message: str) -> Violation:
    return Violation(FindingKind.OUTPUT_REUSED, message)


def _called(subject: Subject, way: _Way) -> Outcome:
    fmt = subject.setting.fmt
    bits = ordinary_rows(_ROWS, _COLUMNS, fmt, subject.setting.seed)
    if way.layout.row_stride == 0:
        bits[:] = bits[0]
    with way.context() if way.is_made_there else nullcontext():
        placed = place(bits, fmt, way.layout, subject.device)
        placed.view.requires_grad_(way.needs_gradient)
    if not way.is_leaf:
        made = placed.view.clone()
        placed = Placed(made, made.detach().view(-1), fmt)
    with nan_filled(), way.context():
        returned = call_on_device(subject.variant.function, placed, subject.setting.operation)
    if returned.output is None and way.needs_gradient and not returned.fatal:
        # Gradients are not promised: torch's own functions refuse such an input when they write into an `out`.
        return Outcome(skipped="input that requires a gradient: the variant refuses it, and nothing promises it")
    if returned.output is None:
        return stopped(returned)
    changed = only(returned.violations, FindingKind.INPUT_MODIFIED, FindingKind.OUT_OF_BOUNDS_WRITE)
    if changed or not way.is_made_there:
        return Outcome(violations=changed)
    output, of_library = to_bits(returned.output, fmt), returned.of_cpu_library
    wrong = judge_call(subject.variant, bits, output, fmt, subject.device, of_cpu_library=of_library).violations
    return Outcome(violations=prefixed(wrong, "with an input made in torch.inference_mode()"))


PROBE = InputUntouched()
