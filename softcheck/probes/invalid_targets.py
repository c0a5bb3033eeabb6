"""Targets that are no columns, in a loss that declares nothing of them: -1, and the number of columns.

Such a loss promises no number for them. torch raises an exception on a CPU and asserts on a GPU, which ends the process's use of it;
others give NaN. Kernels that load the logit at the target read the row before or after it, or another tensor's memory, and that is a
finding. Whether the loss shows that a target is wrong is told beside it, as a property. Where ``invalid_target`` is declared, the
cases have such targets, and this probe makes no trial.
"""

from collections.abc import Sequence

import numpy as np

from oracles.formats import Bits, decode, format_of
from softcheck.calling.call import Called, call
from softcheck.calling.operands import placing
from softcheck.contract import FindingKind
from softcheck.probes.allocation import handing_out
from softcheck.probes.bands import CANARIES, Bands, margin_bytes, place_in_bands
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import both_repeat, differing, ordinary_rows, prefixed
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled

PROPERTY = "invalid_targets_show"
"""True if an exception, an assertion of the device, or NaN shows that a target is no column."""

_ROWS, _COLUMNS = 3, 129
_BEFORE, _BEHIND = "before-the-first-row", "behind-the-last-row"
_ONE = -0.5, CANARIES[0]
"""The number around the logits, and the byte around other operands, in one of two calls."""
_ASSERTED = "device-side assert"
"""In the message of a CUDA error after a kernel's assertion has failed."""


class InvalidTargets(Probe):
    """Calls a loss with one wrong target, with one number or another in the memory around its logits and its other operands."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """The target -1 in the first row, and the number of columns in the last, unless that is declared or ignored."""
        operation, columns = setting.operation, _COLUMNS if setting.takes(_COLUMNS) else 1
        targets = any(operand.name == "target" for operand in operation.operands) and operation.with_named is not None
        if not targets or operation.parameters.get("invalid_target"):
            return []
        wrong = {_BEFORE: (0, -1, columns), _BEHIND: (_ROWS - 1, columns, columns)}
        ignored = operation.parameters.get("ignore_index")
        return [Trial(label, chosen) for label, chosen in wrong.items() if chosen[1] != ignored]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Calls the loss twice, and more often where that shows a read. A process in which it gave a number serves no more: memory may be overwritten."""
        row, wrong, columns = trial.parameters
        fmt = subject.setting.fmt
        bits = ordinary_rows(_ROWS, columns, fmt, subject.setting.seed)
        target = np.arange(_ROWS, dtype=np.int64) % columns
        target[row] = wrong
        operation = subject.setting.operation.naming({"target": target})
        function = subject.variant.of(operation).function
        words = f"with the target {wrong} in row {row} of {columns} columns (if callers check their targets, invalid_target=undefined says so)"

        def called(poison: float, canary: int) -> Called:
            placed = place_in_bands(bits, fmt, poison, subject.device)
            margin = margin_bytes(columns, fmt.itemsize)
            with nan_filled(), handing_out(Bands(CANARIES[0], margin)), placing(Bands(canary, margin).operand):
                return call(function, placed, operation)

        first = called(*_ONE)
        if first.output is None:
            return _without_output(first, words)
        written = tuple(v for v in first.violations if v.kind is FindingKind.OUT_OF_BOUNDS_WRITE)

        def again(around: tuple[float, int]) -> Bits | None:
            return called(*around).output

        other = again(two := (fmt.max, CANARIES[1]))
        if other is None:
            return Outcome(violations=prefixed(written, words), fatal=True)
        violations = list(written)
        message = "the losses change with what the memory around the logits and the other operands holds"
        read = differing(FindingKind.OUT_OF_BOUNDS_READ, first.output, other, fmt, message)
        if read is not None and both_repeat(((_ONE, first.output), (two, other)), again, fmt):
            violations.append(read)
        shows = bool(np.isnan(decode(first.output[row], format_of(first.output, fmt))).all())
        return Outcome(violations=prefixed(violations, words), properties={PROPERTY: shows}, fatal=True)


def _without_output(called: Called, words: str) -> Outcome:
    """The outcome of a call that raised an exception, which refuses the target, or ruined the device."""
    if not called.fatal or any(_ASSERTED in violation.message for violation in called.violations):
        return Outcome(properties={PROPERTY: True}, fatal=called.fatal)
    return Outcome(violations=prefixed(called.violations, words), fatal=True)


PROBE = InvalidTargets()
