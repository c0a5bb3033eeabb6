"""Targets that are no columns, in a loss that declares nothing of them: -1, and the number of columns.

Such a loss promises no number for them, and nobody promises a check. torch raises an exception on a CPU and asserts on a GPU, which ends
the process's use of it; others give NaN. Kernels that load the logit at the target read the row before or after it, or another tensor's
memory: a note says so, and which declaration would hold the kernel to a loss. A store there damages what is another's, and is a finding.
Whether the loss shows that a target is wrong is told beside it, as a property. Where ``invalid_target`` is declared, the
cases have such targets, and this probe makes no trial.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from oracles.formats import decode, format_of
from softcheck.calling.call import Called, on_host
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Setting, Subject, TrialTable
from softcheck.probes.helpers import ordinary_rows, prefixed
from softcheck.probes.memory.guard_bands import CANARIES, ORDINARY, call_in_bands
from softcheck.probes.outcome import Outcome
from softcheck.probes.same_bits import Repeated, unlike

_READ = (
    "for a target that is no column, -1 or the number of columns, the losses hang on memory beside the logits and the other operands, which "
    "nobody promises to leave alone; --declare invalid_target=nan, or =zero, holds the kernel to a loss for such targets"
)
PROPERTY = "invalid_targets_show"
"""True if an exception, an assertion of the device, or NaN shows that a target is no column."""

_ROWS, _COLUMNS = 3, 129
_BEFORE, _BEHIND = "before-the-first-row", "behind-the-last-row"
_ASSERTED = "device-side assert"
"""In the message of a CUDA error after a kernel's assertion has failed."""


def _wrong_targets(setting: Setting) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """The target -1 in the first row, and the number of columns in the last, unless that is declared or ignored."""
    operation, columns = setting.operation, _COLUMNS if setting.takes(_COLUMNS) else 1
    targets = any(operand.name == "target" for operand in operation.operands) and operation.with_named is not None
    if not targets or operation.parameters.get("invalid_target"):
        return
    wrong = {_BEFORE: (0, -1, columns), _BEHIND: (_ROWS - 1, columns, columns)}
    ignored = operation.parameters.get("ignore_index")
    yield from ((label, chosen) for label, chosen in wrong.items() if chosen[1] != ignored)


def _called(subject: Subject, asked: tuple[int, int, int]) -> Iterator[Outcome]:
    """Calls the loss with one number or another in the memory around its logits and its other operands.

    A process in which it gave a number serves no more: memory may be overwritten.
    """
    (row, wrong, columns), fmt = asked, subject.setting.fmt
    bits = ordinary_rows(_ROWS, columns, fmt, subject.setting.seed)
    target = np.arange(_ROWS, dtype=np.int64) % columns
    target[row] = wrong
    subject = replace(subject, variant=subject.variant.of(subject.setting.operation.naming({"target": target})))
    words = (
        f"with the target {wrong} in row {row} of {columns} columns "
        "(if callers check their targets, invalid_target=undefined says so)"
    )
    written: list[Violation] = []

    def called(around: float, canary: int) -> Called:
        made = call_in_bands(subject, bits, around=around, of_operands=canary)
        if not written:
            overrun = made.handed_out.overrun() or made.lent.overrun()
            stores = [v for v in made.returned.violations if v.kind is FindingKind.OUT_OF_BOUNDS_WRITE]
            written.extend(stores if overrun is None else [*stores, overrun])
        return on_host(made.returned, fmt)

    one, other = Repeated(lambda: called(ORDINARY, CANARIES[0])), Repeated(lambda: called(fmt.max, CANARIES[1]))
    if one.first.output is None:
        yield _without_output(one.first, words)
        return
    found = tuple(written)
    read = unlike(one, other, FindingKind.OUT_OF_BOUNDS_READ, "", fmt)
    shows = bool(np.isnan(decode(one.first.output[row], format_of(one.first.output, fmt))).all())
    reads = read is not None and other.first.output is not None
    yield Outcome(
        violations=prefixed(found, words),
        properties={} if other.first.output is None else {PROPERTY: shows},
        fatal=True,
        note=_READ if reads else None,
    )


def _without_output(called: Called, words: str) -> Outcome:
    """The outcome of a call that raised an exception, which refuses the target, or ruined the device."""
    if not called.fatal or any(_ASSERTED in violation.message for violation in called.violations):
        return Outcome(properties={PROPERTY: True}, fatal=called.fatal)
    return Outcome(violations=prefixed(called.violations, words), fatal=True)


PROBE = TrialTable(_wrong_targets, _called)
