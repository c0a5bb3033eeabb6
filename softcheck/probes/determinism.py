"""Repeated calls, compared bit for bit: the same input must give the same output every time, and beside other work.

Nothing is judged here but sameness. On a GPU calls also run under load and on another stream. Calls with others in
between are for the probe of histories.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial

from softcheck.calling.call import Called, call, place
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind
from softcheck.probes import on_streams
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import call_on, differing, ordinary_rows, stopped
from softcheck.probes.outcome import Outcome
from softcheck.probes.tuning import untuned

_KIND = FindingKind.NONDETERMINISTIC
_WIDE = 32768
_ROWS_AND_CALLS = {"repeats": (2, 4), "many-rows": (6, 2)}
_ON_GPU = {"repeats": (2, 40), "many-rows": (16384, 4), "wide-rows": (32, 10)}
"""Rows and equal calls. A race shows when many programs run at once; those that share a wide row may add their sums in any order."""


class _Determinism(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        tried: dict[str, Callable[[Subject, int], Outcome]] = {
            label: partial(_repeated, label, *each)
            for label, each in (_ON_GPU if setting.on_gpu else _ROWS_AND_CALLS).items()
        }
        if setting.on_gpu and not setting.quick:
            tried |= on_streams.TRIALS
        # No earlier call has these shapes, so that a cache by shape can't hold an answer yet.
        widths = {label: 70 + setting.fmt.precision + 3 * number for number, label in enumerate(tried)}
        widest = min(setting.declaration.column_limit(setting.dtype) or _WIDE, _WIDE)
        widths |= {"wide-rows": widest - setting.fmt.precision} if setting.on_gpu else {}
        return [
            Trial(label, (act, widths[label]))
            for label, act in tried.items()
            if widths[label] > 0 and setting.takes(widths[label])
        ]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        act, columns = trial.parameters
        outcome: Outcome = act(subject, columns)
        return outcome


PROBE = _Determinism()


def _repeated(label: str, most: int, calls: int, subject: Subject, columns: int) -> Outcome:
    """Repeats a call, beginning with the first call after tuning is forgotten.

    Poisoning makes torch choose deterministic forms of its operations. Calls are therefore repeated without poison too, as a user makes
    them.
    """
    setting = subject.setting
    rows = setting.fewer(most, columns) if label == "many-rows" and setting.on_gpu else most
    bits = ordinary_rows(rows, columns, setting.fmt, setting.seed)

    def bare() -> Called:
        placed = place(bits, setting.fmt, PACKED, subject.device)
        return call(subject.variant.function, placed, setting.operation)

    for again in (partial(call_on, subject, bits), bare):
        with untuned() if label == "repeats" and again is not bare else nullcontext():
            first = again()
        for number in range(2, calls + 1):
            found = first if first.output is None else again()
            if first.output is None or found.output is None:
                return stopped(found)
            message = f"call {number} on the same input differs from the first"
            change = differing(_KIND, first.output, found.output, setting.fmt, message, bits)
            if change is not None:
                return Outcome(violations=(change,))
    return Outcome()
