"""A history of calls, played on a fresh copy of a variant.

Every output is judged when it comes, and compared with itself at the end.
"""

import functools
import gc
import inspect
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import torch

from oracles.formats import FORMATS, Bits
from softcheck.calling import activity
from softcheck.calling.call import Placed, place, to_bits, to_tensor
from softcheck.calling.operands import Around, with_operands
from softcheck.calling.state import preserved
from softcheck.contract import FindingKind, Violation
from softcheck.errors import UninterpretableError, UsageError
from softcheck.probes.base import Subject
from softcheck.probes.helpers import call_placed, wrong_where_it_lies
from softcheck.probes.histories.modes import Function, asks_for_gradient, in_mode, with_gradient
from softcheck.probes.histories.steps import BESIDE, COLLECT, Step
from softcheck.probes.operand_moves import KeptOperands
from softcheck.probes.poison import handing_out
from softcheck.probes.same_bits import differing
from softcheck.variants.registry import load_anew

TICK = 1e-6
"""Seconds between two readings. A loop that waits comes to its end."""

_REAL: dict[str, Callable[[], Any]] = {
    name: getattr(time, name)
    for name in ("time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns")
}


class StandInClock:
    """A clock of its own, which begins at the machine's time."""

    def __init__(self) -> None:
        self._begun = {name: read() for name, read in _REAL.items()}
        self._passed = 0
        self.tick = TICK
        """Seconds by which each reading is later than the one before."""

    def move(self, seconds: float) -> None:
        """Lets so much time pass."""
        self._passed += int(seconds * 1e9)

    def read(self, name: str) -> Any:
        """The reading of one of the functions of ``time``."""
        self.move(self.tick)
        return self._begun[name] + (self._passed if name.endswith("_ns") else self._passed / 1e9)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Lets the functions of ``time`` read this clock. What is imported meanwhile keeps stand-ins that know the real one."""
        before = _shown[-1:]
        _shown[:] = [self]
        vars(time).update(_STAND_INS)
        try:
            yield
        finally:
            _shown[:] = before
            vars(time).update(_STAND_INS if before else _REAL)


_shown: list[StandInClock] = []
"""The clock that is shown now, if one is."""


def _stand_in(name: str) -> Callable[[], Any]:
    return functools.wraps(_REAL[name])(lambda: _shown[0].read(name) if _shown else _REAL[name]())


_STAND_INS = {name: _stand_in(name) for name in _REAL}


_LEFT_TO_OTHERS = frozenset({FindingKind.STATE_CHANGED, FindingKind.OUT_OF_BOUNDS_WRITE, FindingKind.EMPTY_REFUSED})
"""Kinds that other probes and cases look for, and that show whatever was called before."""

_COMPILES, _TUNES = ("torch.compile",), ("autotune", "load_inline")
"""Parts of code whose first call compiles, and on a GPU those whose first call measures configurations, or runs a compiler of C++."""

_SLEPT = 0.1
"""Seconds of the longest pause that is slept through; of a longer one a stand-in clock alone tells."""

INFERENCE_TENSOR = "nference tensor"
"""A part of torch's messages about tensors made in inference mode."""


class Copies:
    """Fresh copies of a variant, whose module has not been called yet.

    Where a module can't be imported twice, or a new copy's first call is slow, as where torch.compile compiles it or a
    kernel is tuned, every copy is the variant itself.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        slow = (*_COMPILES, *_TUNES) if subject.setting.on_gpu else _COMPILES
        source = ""
        with suppress(AttributeError, KeyError, OSError, TypeError):
            source = inspect.getsource(sys.modules[subject.variant.function.__module__])
        self.are_fresh = not any(name in source for name in slow)

    def one(self) -> Function:
        """Returns one more copy."""
        if self.are_fresh:
            try:
                with StandInClock().shown():
                    return load_anew(self._subject.variant, self._subject.device).function
            except UsageError:
                self.are_fresh = False
        return self._subject.variant.function


class Player:
    """Makes the steps of one history. Every violation that a step shows is returned; none is judged twice."""

    def __init__(self, subject: Subject, copies: Copies) -> None:
        self._subject = subject
        self._function = copies.one()
        # What outlives a history must not have seen another time.
        self._clock = StandInClock() if copies.are_fresh else None
        self._last: dict[tuple[object, ...], Placed] = {}
        self._operands = KeptOperands()
        self._kept: list[tuple[Step, torch.Tensor, Bits]] = []
        self._right: dict[Step, Bits] = {}
        """Right answers: equal steps have equal ones."""
        self.fatal = False
        """True if the process can't go on."""
        self.unable: str | None = None
        """The reason why Triton's interpreter could not make some call."""

    def make(self, step: Step) -> tuple[Violation, ...]:
        """Makes a step and returns the promises that it breaks."""
        if step.act != "call":
            self._act(step)
            return ()
        self._let_pass(step)
        bits = step.bits()
        placed = self._placed(step, bits)
        if step.failing:
            with handing_out(failing(step.failing)):
                in_vain(self._timed(self._function), placed.view)
        try:
            kept = self._operands.change(None, rewrites=step.memory == "same")
            function = in_mode(in_mode(with_operands(self._function, placed.view, kept), step.settings), step.mode)
            returned = call_placed(self._subject.calling(self._timed(function)), placed)
        except UninterpretableError as error:
            self.unable = str(error)
            return ()
        self.fatal |= returned.fatal
        violations = returned.violations
        if returned.output is not None:
            found = to_bits(returned.output, placed.fmt)
            self._kept.append((step, returned.output, found))
            right = self._right.get(step)
            if right is None or right.tobytes() != found.tobytes():
                wrong = wrong_where_it_lies(self._subject, bits, returned.output, returned, placed.fmt)
                violations += wrong
                self._right |= {} if wrong else {step: found}
        return tuple(v for v in violations if not _is_left_out(v, step))

    def _timed(self, function: Function) -> Function:
        """Returns the function as it is called while Python's ``time`` reads the stand-in clock, where there is one."""

        def timed(function: Function, x: torch.Tensor) -> Any:
            with nullcontext() if self._clock is None else self._clock.shown():
                return function(x)

        return Around(function, timed)

    def overwritten(self) -> Violation | None:
        """Returns a violation if an output is no longer what it was when it came."""
        for step, output, before in self._kept:
            fmt = FORMATS[step.dtype]
            message = f"the output of {step} changed after it was returned"
            found = differing(FindingKind.OUTPUT_REUSED, before, to_bits(output, fmt), fmt, message)
            if found is not None:
                return found
        return None

    def _placed(self, step: Step, bits: Bits) -> Placed:
        fmt, device = FORMATS[step.dtype], self._subject.device
        key = (step.rows, step.columns, step.dtype, step.layout, step.offset)
        last = self._last.get(key)
        # Expanded rows share their memory, and torch writes to none such.
        if step.memory == "same" and last is not None and 0 not in last.view.stride():
            # Through ``data``, which leaves the tensor's version as it is: so do kernels that write to it.
            last.view.data.copy_(to_tensor(bits, fmt, device))
        else:
            if step.memory == "freed":
                self._last.pop(key, None)
            last = None  # Else what is freed would still be held here.
            last = place(bits, fmt, step.placing(), device)
        self._last[key] = replace(last, view=with_gradient(last.view, step.grad))
        return self._last[key]

    def _let_pass(self, step: Step) -> None:
        if step.later <= _SLEPT:
            time.sleep(step.later)
        if self._clock is not None:
            self._clock.move(step.later)
            self._clock.tick = step.slow or TICK

    def _act(self, step: Step) -> None:
        device = self._subject.device
        if step.act == COLLECT:
            self._last.clear()
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()
            return
        x = BESIDE[step.act][1](place(step.bits(), FORMATS[step.dtype], step.placing(), device).view)
        in_vain(self._timed(self._function), x)


def in_vain(function: Callable[..., Any], *given: Any) -> Any:
    """Makes a call of which nothing is promised, and returns its answer; None where it raises."""
    with preserved(), suppress(Exception), activity.calling():
        return function(*given)
    return None


def _is_left_out(violation: Violation, step: Step) -> bool:
    """True if a violation is for other probes to find, or an exception about something that nobody promised."""
    if violation.kind is FindingKind.RAISED:
        # Gradients are not promised: torch's own functions refuse such an input when they write into an `out`. Nor does
        # torch let a tensor that was made in inference mode, such as a kept workspace, be written to outside it.
        return asks_for_gradient(step.grad) or INFERENCE_TENSOR in violation.message
    return violation.kind in _LEFT_TO_OTHERS


def failing(number: int) -> Callable[[torch.Tensor, bool], torch.Tensor]:
    """Makes the allocation of this number fail, from 1 on."""
    left = number

    def fail(tensor: torch.Tensor, _initialised: bool) -> torch.Tensor:  # noqa: FBT001 - a Policy
        nonlocal left
        left -= 1
        if left == 0:
            raise torch.OutOfMemoryError("out of memory, as a probe of softcheck has it")
        return tensor

    return fail
