"""Repeated calls, compared bit for bit: the same input must give the same output every time, and beside other work.

Nothing is judged here but sameness. On a GPU calls also run under load and on another stream. Calls with others in
between are for the probe of histories.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

from oracles.formats import Bits
from softcheck.calling.call import Called, call, place
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import call_on, differing, ordinary_rows, stopped
from softcheck.probes.histories.modes import LOADED, STREAM, in_mode
from softcheck.probes.outcome import Outcome
from softcheck.probes.tuning import untuned

_WIDE = 32768
_MANY = 64
"""Rows of which there are fewer where each has more numbers than one of softmax."""


class _Equal(NamedTuple):
    """Equal calls. A race shows when many programs run at once; those that share a wide row may add their sums in any order."""

    rows: int
    calls: int
    mode: str = ""
    """The mode of all calls but the first."""
    words: str = "call {} on the same input differs from the first"


_ELSEWHERE = {"repeats": _Equal(2, 4), "many-rows": _Equal(6, 2)}
_ON_GPU = {
    "repeats": _Equal(2, 40),
    "many-rows": _Equal(16384, 4),
    "wide-rows": _Equal(32, 10),
    "under-load": _Equal(16384, 4, LOADED, "call {} differs from the first while another stream keeps the device busy"),
    "other-stream": _Equal(
        *(16384, 2, STREAM),
        "call {}, in torch.cuda.stream(s), with the input written and the output copied on s, differs from the first; launch on "
        "torch.cuda.current_stream()",
    ),
}


class _Determinism(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        tried = {
            label: equal
            for label, equal in (_ON_GPU if setting.on_gpu else _ELSEWHERE).items()
            if not (equal.mode and setting.quick)
        }
        # No earlier call has these shapes, so that a cache by shape can't hold an answer yet.
        widths = {label: 70 + setting.fmt.precision + 3 * number for number, label in enumerate(tried)}
        widest = min(setting.declaration.column_limit(setting.dtype) or _WIDE, _WIDE)
        widths |= {"wide-rows": widest - setting.fmt.precision} if setting.on_gpu else {}
        return [
            Trial(label, (equal, widths[label]))
            for label, equal in tried.items()
            if widths[label] > 0 and setting.takes(widths[label])
        ]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Repeats a call, beginning with the first call after tuning is forgotten.

        Poisoning makes torch choose deterministic forms of its operations. Calls are therefore repeated without poison too, as a
        user makes them.
        """
        equal, columns = trial.parameters
        setting = subject.setting
        rows = setting.fewer(equal.rows, columns) if equal.rows > _MANY else equal.rows
        bits = ordinary_rows(rows, columns, setting.fmt, setting.seed)
        other = subject.calling(in_mode(subject.variant.function, equal.mode))

        def bare(made: Subject, bits: Bits) -> Called:
            return call(made.variant.function, place(bits, setting.fmt, PACKED, made.device), setting.operation)

        for make in (call_on, bare):
            with untuned() if trial.label == "repeats" and make is call_on else nullcontext():
                first = make(subject, bits)
            found = repeated(first, partial(make, other, bits), subject, equal.calls, equal.words, bits)
            if found.violations or found.fatal:
                return found
        return Outcome()


PROBE = _Determinism()


def repeated(
    first: Called, again: Callable[[], Called], subject: Subject, calls: int, words: str, inputs: Bits | None = None
) -> Outcome:
    """Returns what ends a trial of equal calls: one without an answer, or one whose answer is not that of the first."""
    for number in range(2, calls + 1):
        found = first if first.output is None else again()
        if first.output is None or found.output is None:
            return stopped(found)
        message = words.format(number)
        change = differing(
            FindingKind.NONDETERMINISTIC, first.output, found.output, subject.setting.fmt, message, inputs
        )
        if change is not None:
            return Outcome(violations=(change,))
    return Outcome()
