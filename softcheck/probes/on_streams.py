"""Trials of the determinism probe on a GPU: beside other work, and on a stream that is not the default one."""

from collections.abc import Callable

import torch

from softcheck.calling import activity
from softcheck.calling.call import place, raised, returned_wrongly, to_bits
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind
from softcheck.probes.base import Subject
from softcheck.probes.helpers import call_on, differing, ordinary_rows, prefixed, stopped
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled

_KIND = FindingKind.NONDETERMINISTIC
_ROWS = 16384


def _under_load(subject: Subject, columns: int) -> Outcome:
    """Repeats a call while another stream keeps the device busy."""
    setting = subject.setting
    bits = ordinary_rows(setting.fewer(_ROWS, columns), columns, setting.fmt, setting.seed)
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
    rows = subject.setting.fewer(_ROWS, columns)
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


def work(device: torch.device, size: int = 8192) -> None:
    """Queues matrix products on the current stream: some 15 ms, several times as long as a call takes to launch."""
    a = torch.ones(size, size, device=device, dtype=torch.bfloat16)
    product = torch.empty_like(a)
    for _ in range(9):
        torch.mm(a, a, out=product)


TRIALS: dict[str, Callable[[Subject, int], Outcome]] = {"under-load": _under_load, "other-stream": _other_stream}
