"""Trials of the histories probe without a plan: many equal calls, and calls at the same time."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import torch

from oracles.formats import Bits
from softcheck.calling import activity, launches
from softcheck.calling.call import Called, place, returned_wrongly, synchronize, to_bits, to_tensor
from softcheck.calling.state import preserved
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind
from softcheck.probes.base import Setting, Subject
from softcheck.probes.helpers import call_on, ordinary_rows, prefixed, stopped, wrong_values
from softcheck.probes.histories.modes import work
from softcheck.probes.histories.player import Copies
from softcheck.probes.outcome import Outcome

_COLUMNS = 77
_AT_ONCE = 4
_ROUNDS = 12
_IN_A_THREAD = 400
"""Calls from each thread."""
_ROWS, _ROWS_OF_CALLS, _ROWS_OF_STREAMS = 64, 2, 2048
_MANY, _MANY_INTERPRETED, _FEWEST = 1000, 130, 8
"""Equal calls in a row: of any function, of one whose kernels Triton's interpreter runs, and at least of such a one in a run on many variants."""
_SWITCHING = 1e-5
"""Seconds after which Python goes on with another thread."""


@dataclass(frozen=True, slots=True)
class _AnsweredInput:
    """An input whose answer alone is right."""

    bits: Bits
    x: torch.Tensor
    alone: Called
    output: torch.Tensor
    """The output alone, on the device."""


Made = tuple[_AnsweredInput, Any, str]
"""An input, what a call on it returned, copied before another call, and words for the call."""
Act = Callable[[Subject, Sequence[_AnsweredInput]], Iterator[Made]]
"""Calls the variant."""


def trials(setting: Setting) -> dict[str, Callable[[Subject], Outcome]]:
    """Returns the trials by label."""
    if not setting.takes(_COLUMNS):
        return {}
    # Each row of a mean is a call of its own.
    of_threads = _ROWS_OF_CALLS if setting.has_row_calls else int(_ROWS / setting.cost_of_call)
    found: dict[str, Callable[[Subject], Outcome]] = {
        "many-calls": partial(_tried, _many, 1, 1),
        "threads": partial(_tried, _threads, _AT_ONCE, of_threads),
    }
    if setting.on_gpu:
        found["streams"] = partial(_tried, _streams, _AT_ONCE, setting.fewer(_ROWS_OF_STREAMS, _COLUMNS))
    return found


def _is_interpreted(subject: Subject) -> bool:
    """True if a call runs kernels under Triton's interpreter."""
    before = launches.counted()
    call_on(subject, ordinary_rows(1, _COLUMNS, subject.setting.fmt, subject.setting.seed))
    return not subject.setting.on_gpu and launches.counted() != before


def _answered(subject: Subject, count: int, rows: int) -> list[_AnsweredInput] | Outcome:
    """Returns inputs of other values each; an outcome if an answer is wrong alone, which other probes report."""
    fmt, found = subject.setting.fmt, list[_AnsweredInput]()
    for number in range(count):
        bits = ordinary_rows(rows, _COLUMNS, fmt, (subject.setting.seed + number) % 2**32)
        alone = call_on(subject, bits)
        if alone.output is None or wrong_values(subject, bits, alone.output, alone):
            return stopped(alone) if alone.output is None else Outcome()
        x = place(bits, fmt, PACKED, subject.device).view
        found.append(_AnsweredInput(bits, x, alone, to_tensor(alone.output, fmt, subject.device)))
    return found


def _tried(act: Act, count: int, rows: int, subject: Subject) -> Outcome:
    """Judges what an act's calls return that differs from the answer alone."""
    if act is _threads and _is_interpreted(subject):
        return Outcome(skipped="calls from several threads at once: Triton's interpreter can't make them")
    inputs = _answered(subject, count, rows)
    if isinstance(inputs, Outcome):
        return inputs
    with preserved(), activity.calling():
        made = list(act(subject, inputs))
        synchronize(subject.device)
    for one, output, words in made:
        wrong = returned_wrongly(output, one.x, subject.setting.operation)
        found = () if wrong is None else prefixed((wrong,), words)
        if wrong is None and not torch.equal(output, one.output):
            judged = wrong_values(subject, one.bits, to_bits(output, subject.setting.fmt), one.alone)
            told = prefixed(judged[:1], f"{words}, right alone")
            found = tuple(msgspec.structs.replace(v, kind=FindingKind.NONDETERMINISTIC, share=None) for v in told)
        if found:
            return Outcome(violations=found)
    return Outcome()


def _copied(output: Any) -> Any:
    return output.detach().clone() if isinstance(output, torch.Tensor) else output


def _many(subject: Subject, inputs: Sequence[_AnsweredInput]) -> Iterator[Made]:
    """Calls a fresh copy a thousand times, or fewer times where its kernels are interpreted, on the same input: a counter that runs over shows."""
    [one] = inputs
    most = _MANY_INTERPRETED * min(1.0, subject.setting.time_share) if _is_interpreted(subject) else _MANY
    function = Copies(subject).one()
    for number in range(1, max(_FEWEST, int(most / subject.setting.cost_of_call)) + 1):
        words = f"call {number} of a fresh copy, all on the same input, comes out wrong"
        yield one, _copied(function(one.x)), words


def _threads(subject: Subject, inputs: Sequence[_AnsweredInput]) -> Iterator[Made]:
    """Calls from several threads at once, on inputs of one shape, and yields what differs from the answer alone.

    An exception there is nobody's fault: Triton's autotuner is not made for threads. The interpreter is not either.
    """
    calls = int(_IN_A_THREAD / subject.setting.cost_of_call)
    calls //= len(inputs[0].bits) if subject.setting.has_row_calls else 1
    others: list[Made] = []
    barrier = threading.Barrier(len(inputs))
    function = subject.variant.function
    words = f"called from {_AT_ONCE} threads at once, an input comes out wrong"

    def call_again_and_again(one: _AnsweredInput) -> None:
        barrier.wait()
        try:
            for _ in range(calls):
                output = function(one.x)
                is_usual = returned_wrongly(output, one.x, subject.setting.operation) is None
                if is_usual and not torch.equal(output, one.output):
                    others.append((one, _copied(output), words))
                    return
        except Exception:  # noqa: BLE001 - see above
            return

    threads = [threading.Thread(target=call_again_and_again, args=(one,)) for one in inputs]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCHING)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    yield from others


def _streams(subject: Subject, inputs: Sequence[_AnsweredInput]) -> Iterator[Made]:
    """Queues calls on several streams, which all begin when the device has done other work."""
    device, function = subject.device, subject.variant.function
    streams = [torch.cuda.Stream(device) for _ in inputs]  # type: ignore[no-untyped-call]
    synchronize(device)
    with torch.cuda.stream(torch.cuda.Stream(device)):  # type: ignore[no-untyped-call]
        work(device)
        gate = torch.cuda.Event()  # type: ignore[no-untyped-call]
        gate.record()
    for stream in streams:
        stream.wait_event(gate)
    for _ in range(_ROUNDS):
        for one, stream in zip(inputs, streams, strict=True):
            with torch.cuda.stream(stream):
                yield one, _copied(function(one.x)), f"called on {_AT_ONCE} streams at once, an input comes out wrong"
