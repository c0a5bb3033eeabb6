"""Repeated calls, compared bit for bit: the same input must give the same output every time, and beside other work.

Nothing is judged here but sameness. On a GPU calls also run under load and on another stream. Calls with others in
between are for the probe of histories.
"""

from collections.abc import Callable, Sequence

from oracles.formats import Bits
from softcheck.calling.call import Called, call, place
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind
from softcheck.probes import on_streams
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import call_on, differing, ordinary_rows, stopped
from softcheck.probes.outcome import Outcome
from softcheck.probes.tuning import untuned

_KIND = FindingKind.NONDETERMINISTIC
_ROWS = 2
_WIDE = 32768

Trying = Callable[[Subject, int], Outcome]


class _Determinism(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        tried: dict[str, Trying] = dict(_TRIALS)
        if setting.on_gpu and not setting.quick:
            tried |= on_streams.TRIALS
        # No earlier call has these shapes, so that a cache by shape can't hold an answer yet.
        widths = {label: 70 + setting.fmt.precision + 3 * number for number, label in enumerate(tried)}
        if setting.on_gpu:
            limit = setting.declaration.column_limit(setting.dtype)
            tried["wide-rows"], widths["wide-rows"] = _wide_rows, min(limit or _WIDE, _WIDE) - setting.fmt.precision
        return [
            Trial(label, (act, widths[label]))
            for label, act in tried.items()
            if widths[label] > 0 and setting.takes(widths[label])
        ]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        act, columns = trial.parameters
        outcome: Outcome = act(subject, columns)
        return outcome


def _repeats(subject: Subject, columns: int) -> Outcome:
    """Repeats a call, beginning with the first call after tuning is forgotten."""
    bits = ordinary_rows(_ROWS, columns, subject.setting.fmt, subject.setting.seed)
    with untuned():
        first = call_on(subject, bits)
    calls = 40 if subject.setting.on_gpu else 4
    return _same_again(subject, bits, first, calls) or _same_again(subject, bits, None, calls) or Outcome()


def _many_rows(subject: Subject, columns: int) -> Outcome:
    """Repeats a call on many rows: a race shows when many programs run at once."""
    rows = subject.setting.fewer(16384, columns) if subject.setting.on_gpu else 6
    bits = ordinary_rows(rows, columns, subject.setting.fmt, subject.setting.seed)
    calls = 4 if subject.setting.on_gpu else 2
    return (
        _same_again(subject, bits, call_on(subject, bits), calls)
        or _same_again(subject, bits, None, calls)
        or Outcome()
    )


def _wide_rows(subject: Subject, columns: int) -> Outcome:
    """Repeats a call on wide rows. Many threads or programs share a row, and may add their sums in any order.

    GPU only.
    """
    bits = ordinary_rows(32, columns, subject.setting.fmt, subject.setting.seed)
    return _same_again(subject, bits, call_on(subject, bits), 10) or _same_again(subject, bits, None, 10) or Outcome()


_TRIALS: dict[str, Trying] = {
    "repeats": _repeats,
    "many-rows": _many_rows,
}

PROBE = _Determinism()


def _same_again(subject: Subject, bits: Bits, first: Called | None, calls: int) -> Outcome | None:
    """Repeats a call. Returns an outcome if an answer differs or is missing, None if all is well.

    Poisoning makes torch choose deterministic forms of its operations. Calls are therefore repeated without poison too:
    if ``first`` is None, all calls are made as a user makes them.
    """
    made = _bare(subject, bits) if first is None else first
    again = _bare if first is None else call_on
    for number in range(2, calls + 1):
        found = _unlike(
            subject, bits, made, again(subject, bits), f"call {number} on the same input differs from the first"
        )
        if found is not None:
            return found
    return None


def _bare(subject: Subject, bits: Bits) -> Called:
    return call(
        subject.variant.function, place(bits, subject.setting.fmt, PACKED, subject.device), subject.setting.operation
    )


def _unlike(subject: Subject, bits: Bits, first: Called, again: Called, words: str) -> Outcome | None:
    """Returns an outcome if two calls on the same input give other bits, or no output; None if all is well."""
    for made in (first, again):
        if made.output is None:
            return stopped(made)
    assert first.output is not None
    assert again.output is not None
    found = differing(_KIND, first.output, again.output, subject.setting.fmt, words, bits)
    return None if found is None else Outcome(violations=(found,))
