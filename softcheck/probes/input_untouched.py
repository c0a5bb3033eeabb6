"""The caller's input stays unchanged, and a returned output stays the caller's.

Inputs are compared byte for byte before and after each call (``calling.call``). Here one tensor is used again and again, and outputs
must have memory of their own: neither the input's, nor a buffer that the next call writes to. Layouts and modes are axes of ``meetings``.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import torch

from softcheck.calling.call import Called, Placed, call, place, to_bits
from softcheck.calling.operands import given, inputs_of
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import Repeated, call_placed, differing, only, ordinary_rows, stopped, unlike
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled

_ROWS, _COLUMNS = 3, 71
"""A shape that no other probe uses, so that the first call on it is the call that tunes and caches. A head has as many queries as columns."""
_CHANGED = FindingKind.INPUT_MODIFIED, FindingKind.OUT_OF_BOUNDS_WRITE


class InputUntouched(Probe):
    """Checks that the input keeps its bytes, and that outputs have memory of their own."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Puts the reused input first, so that its first call is the variant's first on this shape."""
        columns = _COLUMNS if setting.takes(_COLUMNS) else 1
        found = [
            Trial("reused", partial(_reused, columns=columns)),
            Trial("returned", partial(_returned, columns=columns)),
        ]
        if columns > 1:
            # A row of one column may be its own answer.
            found.append(Trial("returned/one-column", partial(_returned, columns=1)))
            found += [Trial(f"called/{way}", partial(_called, way)) for way in (_IN_A_MODEL, _HELD_BY_NOBODY)]
        return found

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Makes one trial, of a few calls."""
        outcome: Outcome = trial.parameters(subject)
        return outcome


PROBE = InputUntouched()

_IN_A_MODEL, _HELD_BY_NOBODY = "no-grad-in-a-model", "held-by-nobody"


def _placed(subject: Subject, rows: int, columns: int, again: int = 0) -> Placed:
    setting = subject.setting
    return place(ordinary_rows(rows, columns, setting.fmt, setting.seed + again), setting.fmt, PACKED, subject.device)


def _reused(subject: Subject, columns: int) -> Outcome:
    """Calls three times on one tensor: no call may change it, and the first, which may tune, must agree with the others."""
    placed = _placed(subject, _ROWS, columns)

    def again() -> Called:
        with nan_filled():
            return call(subject.variant.function, placed, subject.setting.operation)

    called = [again() for _ in range(3)]
    ended = next((each for each in called if each.output is None), None)
    changed = [only(each.violations, *_CHANGED) for each in called]
    if ended is not None or any(changed):
        return stopped(ended) if ended is not None else Outcome(violations=next(filter(None, changed)))
    first, second, third = called
    message = "the first call on a tensor differs from the second, and later ones agree"
    # A variant that varies by itself is for another probe to find.
    one, other = Repeated(lambda: third, second), Repeated(lambda: first, first)
    found = unlike(one, other, FindingKind.NONDETERMINISTIC, message, subject.setting.fmt)
    return found if found is not None and Repeated(again, third).repeats(subject.setting.fmt) else Outcome()


def _returned(subject: Subject, columns: int) -> Outcome:
    """Checks that the output has memory of its own, and that a later call on other data leaves it unchanged."""
    fmt, kept = subject.setting.fmt, _placed(subject, _ROWS, columns)
    first = call_placed(subject, kept)
    if first.output is None:
        return stopped(first)
    before, storage = to_bits(first.output, fmt), first.output.untyped_storage().data_ptr()
    if storage == kept.storage.untyped_storage().data_ptr():
        return _reuse("the output lies in the input's memory")
    for rows in (_ROWS, 1):
        # The same shape, for buffers kept by shape, and fewer rows, for a buffer kept for the largest input.
        later = call_placed(subject, _placed(subject, rows, columns, again=1))
        if later.output is None:
            return stopped(later)
        message = f"an output changed when the variant was called again, on other data of shape [{rows}, {columns}]"
        changed = differing(FindingKind.OUTPUT_REUSED, before, to_bits(first.output, fmt), fmt, message)
        if changed is not None:
            return Outcome(violations=(changed,))
        if later.output.untyped_storage().data_ptr() == storage:
            return _reuse("an output lies in the memory of one that an earlier call returned and that is still in use")
    return Outcome()


def _reuse(message: str) -> Outcome:
    return Outcome(violations=(Violation(FindingKind.OUTPUT_REUSED, f"{message}; expected memory of its own"),))


def _called(way: str, subject: Subject) -> Outcome:
    """Calls on an input that another operation made without gradients, as in a model, or that the caller holds no more."""
    placed = _placed(subject, _ROWS, _COLUMNS)
    if way == _IN_A_MODEL:
        made = placed.view.requires_grad_().clone()
        placed = replace(placed, view=made, storage=made.detach().view(-1))
    elif (inputs := inputs_of(subject.variant.function, placed.view)) is not None:
        subject = subject.calling(given(subject.variant.function, replace(inputs, are_held=False)))
    with torch.no_grad() if way == _IN_A_MODEL else nullcontext():
        returned = call_placed(subject, placed)
    is_over = returned.output is None
    return stopped(returned) if is_over else Outcome(violations=only(returned.violations, *_CHANGED))
