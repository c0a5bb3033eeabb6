"""Repeated calls, compared bit for bit: the same input must give the same output every time, and beside other work.

Nothing is judged here but sameness. On a GPU calls also run under load and on another stream. Calls with others in
between are for the probe of histories.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial

import torch

from softcheck.calling import activity
from softcheck.calling.call import Called, call, place, raised, returned_wrongly, to_bits
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import call_on, differing, ordinary_rows, prefixed, stopped
from softcheck.probes.histories.modes import work
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled
from softcheck.probes.tuning import untuned

_KIND = FindingKind.NONDETERMINISTIC
_WIDE = 32768
_LOADED_ROWS = 16384
"""Rows of calls beside other work."""
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
            tried |= {"under-load": _under_load, "other-stream": _other_stream}
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


def _under_load(subject: Subject, columns: int) -> Outcome:
    """Repeats a call while another stream keeps the device busy."""
    setting = subject.setting
    bits = ordinary_rows(setting.fewer(_LOADED_ROWS, columns), columns, setting.fmt, setting.seed)
    quiet = call_on(subject, bits)
    if quiet.output is None:
        return stopped(quiet)
    load = torch.cuda.Stream(subject.device)  # type: ignore[no-untyped-call]
    for _ in range(3):
        with torch.cuda.stream(load):
            work(subject.device)
        busy = call_on(subject, bits)
        if busy.output is None:
            return stopped(busy)
        found = differing(
            _KIND, quiet.output, busy.output, subject.setting.fmt, "while another stream keeps the device busy", bits
        )
        if found is not None:
            return Outcome(violations=(found,))
    return Outcome()


def _other_stream(subject: Subject, columns: int) -> Outcome:
    """Queues everything on one stream: long work, then new values for the input, the call, and a copy of its output.

    If the variant launches on another stream, it reads the old values, or its output is copied before it is written.
    """
    fmt, function = subject.setting.fmt, subject.variant.function
    rows = subject.setting.fewer(_LOADED_ROWS, columns)
    old, new = (ordinary_rows(rows, columns, fmt, subject.setting.seed + seed) for seed in (0, 1))
    expected = call_on(subject, new)
    if expected.output is None:
        return stopped(expected)
    x = place(old, fmt, PACKED, subject.device).view
    values = place(new, fmt, PACKED, subject.device).view
    side = torch.cuda.Stream(subject.device)  # type: ignore[no-untyped-call]
    torch.cuda.synchronize(subject.device)
    try:
        with torch.cuda.stream(side):
            work(subject.device)
            x.copy_(values)
            with nan_filled(), activity.calling():
                output = function(x)
            at_once = output.clone() if returned_wrongly(output, x, subject.setting.operation) is None else None
        torch.cuda.synchronize(subject.device)
    except Exception as error:  # noqa: BLE001 - whatever a variant raises is a finding about it
        violation, fatal = raised(error, subject.device)
        return Outcome(violations=prefixed((violation,), "in torch.cuda.stream(s)"), fatal=fatal)
    if at_once is None:
        return Outcome(
            violations=tuple(v for v in (returned_wrongly(output, x, subject.setting.operation),) if v is not None)
        )
    words = (
        "called in torch.cuda.stream(s), with the input written and the output copied on s, it gives something else; launch "
        "on torch.cuda.current_stream()"
    )
    found = differing(_KIND, expected.output, to_bits(at_once, fmt), fmt, words, new)
    return Outcome(violations=() if found is None else (found,))
