"""Trials of the histories probe without a plan: many equal calls, calls at the same time, and replayed CUDA graphs."""

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import torch

from oracles.formats import Bits
from softcheck.calling import activity, launches
from softcheck.calling.call import Called, place, returned_wrongly, synchronize, to_bits, to_tensor
from softcheck.calling.state import preserved
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Setting, Subject
from softcheck.probes.helpers import call_on, ordinary_rows, same_bits, stopped, wrong_values
from softcheck.probes.histories.modes import captured, work
from softcheck.probes.histories.player import Copies
from softcheck.probes.outcome import Outcome

_COLUMNS = 77
_AT_ONCE = 4
_ROUNDS = 12
_IN_A_THREAD = 400
"""Calls from each thread."""
_ROWS, _ROWS_OF_CALLS = 64, 2
_MANY, _MANY_INTERPRETED, _FEWEST = 1000, 130, 8
"""Equal calls in a row: of any function, of one whose kernels Triton's interpreter runs, and at least of such a one in a run on many variants."""
_SWITCHING = 1e-5
"""Seconds after which Python goes on with another thread."""


def trials(setting: Setting) -> dict[str, Callable[[Subject], Outcome]]:
    """Returns the trials by label."""
    if not setting.takes(_COLUMNS):
        return {}
    found: dict[str, Callable[[Subject], Outcome]] = {"many-calls": _many_calls, "threads": _threads}
    if setting.on_gpu:
        found |= {"streams": _streams, "graph": _graph}
    return found


@dataclass(frozen=True, slots=True)
class _AnsweredInput:
    """An input whose answer alone is right."""

    bits: Bits
    x: torch.Tensor
    alone: Called
    output: torch.Tensor
    """The output alone, on the device."""

    def wrong(self, subject: Subject, output: Bits, words: str) -> Violation | None:
        """Returns a violation if an output has other bits than alone, and is wrong."""
        assert self.alone.output is not None
        if same_bits(self.alone.output, output, subject.setting.fmt).all():
            return None
        for found in wrong_values(subject, self.bits, output, self.alone):
            message = f"{words}, right alone: {found.message}"
            return msgspec.structs.replace(found, kind=FindingKind.NONDETERMINISTIC, share=None, message=message)
        return None


def _inputs(subject: Subject, count: int, rows: int) -> list[_AnsweredInput] | Outcome:
    """Returns inputs of other values each; an outcome if an answer is wrong alone, which other probes report."""
    fmt, found = subject.setting.fmt, []
    for number in range(count):
        bits = ordinary_rows(rows, _COLUMNS, fmt, (subject.setting.seed + number) % 2**32)
        alone = call_on(subject, bits)
        if alone.output is None:
            return stopped(alone)
        if wrong_values(subject, bits, alone.output, alone):
            return Outcome()
        x = place(bits, fmt, PACKED, subject.device).view
        found.append(_AnsweredInput(bits, x, alone, to_tensor(alone.output, fmt, subject.device)))
    return found


def _many_calls(subject: Subject) -> Outcome:
    """Calls a fresh copy a thousand times, or fewer times where its kernels are interpreted, on the same input: a counter that runs over shows."""
    before = launches.counted()
    inputs = _inputs(subject, 1, 1)
    if isinstance(inputs, Outcome):
        return inputs
    [one] = inputs
    is_interpreted = not subject.setting.on_gpu and launches.counted() != before
    most = _MANY_INTERPRETED * min(1.0, subject.setting.time_share) if is_interpreted else _MANY
    calls = max(_FEWEST, int(most / subject.setting.cost_of_call))
    function = Copies(subject).one()
    outputs: list[torch.Tensor] = []
    with preserved(), activity.calling():
        for number in range(1, calls + 1):
            output = function(one.x)
            wrong = returned_wrongly(output, one.x, subject.setting.operation)
            if wrong is not None:
                words = f"call {number} of a fresh copy on the same input"
                return Outcome(violations=(msgspec.structs.replace(wrong, message=f"{words}: {wrong.message}"),))
            outputs.append(output.detach().clone())
    together = to_bits(torch.stack(outputs), subject.setting.fmt)
    for number, bits in enumerate(together, 1):
        found = one.wrong(subject, bits, f"call {number} of a fresh copy, all on the same input, comes out wrong")
        if found is not None:
            return Outcome(violations=(found,))
    return Outcome()


def _threads(subject: Subject) -> Outcome:
    """Calls from several threads at once, on inputs of one shape.

    An exception there is nobody's fault: Triton's autotuner is not made for threads. The interpreter is not either.
    """
    before = launches.counted()
    inputs = _inputs(subject, 1, 2)
    if not subject.setting.on_gpu and launches.counted() != before:
        return Outcome(skipped="calls from several threads at once: Triton's interpreter can't make them")
    # Each row of a mean is a call of its own.
    rows = _ROWS_OF_CALLS if subject.setting.has_row_calls else int(_ROWS / subject.setting.cost_of_call)
    inputs = _inputs(subject, _AT_ONCE, rows)
    if isinstance(inputs, Outcome):
        return inputs
    calls = int(_IN_A_THREAD / subject.setting.cost_of_call) // (rows if subject.setting.has_row_calls else 1)
    outputs: list[list[torch.Tensor]] = [[] for _ in inputs]
    barrier = threading.Barrier(len(inputs))
    function = subject.variant.function

    def call_again_and_again(one: _AnsweredInput, others: list[torch.Tensor]) -> None:
        barrier.wait()
        try:
            for _ in range(calls):
                output = function(one.x)
                if returned_wrongly(output, one.x, subject.setting.operation) is None and not torch.equal(
                    output, one.output
                ):
                    others.append(output.detach().clone())
                    return
        except Exception:  # noqa: BLE001 - see above
            return

    threads = [threading.Thread(target=call_again_and_again, args=each) for each in zip(inputs, outputs, strict=True)]
    interval = sys.getswitchinterval()
    with preserved(), activity.calling():
        sys.setswitchinterval(_SWITCHING)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
        synchronize(subject.device)
    return _first_wrong(subject, inputs, outputs, f"called from {_AT_ONCE} threads at once, an input comes out wrong")


def _streams(subject: Subject) -> Outcome:
    """Queues calls on several streams, which all begin when the device has done other work."""
    inputs = _inputs(subject, _AT_ONCE, subject.setting.fewer(2048, _COLUMNS))
    if isinstance(inputs, Outcome):
        return inputs
    device, function = subject.device, subject.variant.function
    streams = [torch.cuda.Stream(device) for _ in inputs]  # type: ignore[no-untyped-call]
    outputs: list[list[torch.Tensor]] = [[] for _ in inputs]
    synchronize(device)
    with preserved(), activity.calling():
        with torch.cuda.stream(torch.cuda.Stream(device)):  # type: ignore[no-untyped-call]
            work(device)
            gate = torch.cuda.Event()  # type: ignore[no-untyped-call]
            gate.record()
        for stream in streams:
            stream.wait_event(gate)
        for _ in range(_ROUNDS):
            for one, stream, made in zip(inputs, streams, outputs, strict=True):
                with torch.cuda.stream(stream):
                    output = function(one.x)
                    if returned_wrongly(output, one.x, subject.setting.operation) is None:
                        made.append(output.detach().clone())
        synchronize(device)
    return _first_wrong(subject, inputs, outputs, f"called on {_AT_ONCE} streams at once, an input comes out wrong")


def _first_wrong(
    subject: Subject, inputs: Sequence[_AnsweredInput], outputs: Sequence[Sequence[torch.Tensor]], words: str
) -> Outcome:
    for one, made in zip(inputs, outputs, strict=True):
        for output in made:
            found = one.wrong(subject, to_bits(output, subject.setting.fmt), words)
            if found is not None:
                return Outcome(violations=(found,))
    return Outcome()


def _graph(subject: Subject) -> Outcome:
    """Captures a call in a CUDA graph and replays it on other values, with ordinary calls between the replays."""
    inputs = _inputs(subject, _AT_ONCE, 64)
    if isinstance(inputs, Outcome):
        return inputs
    x = torch.empty_like(inputs[0].x)
    with preserved():
        try:
            graph, output = captured(subject.variant.function, x)
        except Exception:  # noqa: BLE001 - that a call can be captured is not promised
            return Outcome(skipped="a replayed CUDA graph: the call can't be captured")
        if returned_wrongly(output, x, subject.setting.operation) is not None:
            return Outcome()
        for number, one in enumerate(inputs * 2, 1):
            x.copy_(one.x)
            graph.replay()
            words = f"replay {number} of a captured CUDA graph, on new values of its input, comes out wrong"
            found = one.wrong(subject, to_bits(output, subject.setting.fmt), words)
            if found is not None:
                return Outcome(violations=(found,))
            call_on(subject, inputs[number % _AT_ONCE].bits)
    return Outcome()
