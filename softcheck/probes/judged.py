"""Calls together with the judgement of their outputs, which is made on the device as far as that is quicker."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import torch

from oracles.formats import Bits, Format, format_of
from softcheck.calling.call import (
    Launched,
    all_to_bits,
    launch,
    place,
    raised,
    synchronize,
    to_bits,
    to_tensor,
)
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import FindingKind, Violation
from softcheck.judge.by_contract import by_contract, judge_call, judge_in_place
from softcheck.judge.measurement import Measurement
from softcheck.probes.base import Subject
from softcheck.probes.diagnose import Attempt, diagnose
from softcheck.probes.helpers import right_where_it_lies, screened
from softcheck.probes.poison import nan_filled

MOST = 32
"""Most calls that are judged together: larger groups would save few waits."""

ECHO_BYTES = 1 << 15
"""Bytes of an output up to which it is copied to the host as a whole. Checking it there takes less time than many
kernels on a device, each of which waits for its turn among other processes' kernels."""

_MOST_NUMBERS = 2**21
"""Numbers of the outputs of heads of which a finding is told without a look at the others."""

_MANY_ELEMENTS = 1 << 20
"""Elements above which an output on a GPU is judged where it lies, by some eighty kernels of torch."""

_FEW_COLUMNS = 64
"""Columns at which an operation is asked for the numbers that it takes for each logit."""

_GROUP_BYTES = 4 << 20
"""Bytes of inputs after which a group is settled. Each input is kept three times: as placed, as a copy, and as
output."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A call's output on the device, None if it has none, and all promises that the call breaks."""

    output: torch.Tensor | None
    violations: tuple[Violation, ...]
    fatal: bool

    def bits(self, fmt: Format) -> Bits | None:
        """The output's bit patterns on the host."""
        return None if self.output is None else to_bits(self.output, fmt)


@dataclass(frozen=True, slots=True)
class _Made:
    size: int
    bits: Bits
    layout: Layout
    launched: Launched
    flags: torch.Tensor | None = None
    """Bool [2] on the device of an answer: the input is unchanged; all rows surely keep their bounds, as far as it was looked at there."""

    def judged(self, violations: tuple[Violation, ...]) -> Judged:
        return Judged(self.launched.output, violations, self.launched.fatal)


class Calls:
    """Calls in NaN-poisoned memory, made one after the other and judged in groups of up to ``most``.

    Within a group nothing waits for the device. For a large output the device computes whether the input is unchanged, and whether
    all rows pass the screen; small ones are copied to the host together when the whole group is done, and checked there.

    A group of one is waited for before its output is looked at. Outputs of larger groups are copied on the caller's
    stream right after the call, so that the next call may write to the same memory.
    """

    def __init__(
        self, subject: Subject, function: Callable[[torch.Tensor], Any] | None = None, *, most: int = 1
    ) -> None:
        self._subject = subject
        self._function = subject.variant.function if function is None else function
        self._most = min(most, MOST)
        of_heads = subject.setting.operation.per_logit(_FEW_COLUMNS) > 1
        self._screens = subject.setting.on_gpu or of_heads
        """True if a screen is quicker than the numpy judge: on a GPU, and of heads everywhere."""
        self._echo_bytes = 0 if subject.setting.on_gpu and of_heads else ECHO_BYTES
        """Bytes up to which the host looks at an output, but where a GPU is quicker even with the smallest."""
        self._arrived = _arrived(subject.device.type)
        self._made: list[_Made] = []
        self._crash: Violation | None = None
        """Set once the device is lost, whichever call lost it."""

    @property
    def is_full(self) -> bool:
        """True if the calls made must be settled before another call."""
        if not self._made:
            return False
        is_over = self._crash is not None or self._made[-1].launched.fatal
        is_large = sum(made.bits.nbytes for made in self._made) >= _GROUP_BYTES
        return is_over or is_large or len(self._made) == self._most

    def make(self, bits: Bits, size: int = 0, layout: Layout = PACKED) -> None:
        """Calls the variant on these rows in a layout. ``settle`` returns ``size`` with the result."""
        device = self._subject.device
        try:
            placed = place(bits, self._subject.setting.fmt, layout, device)
            with nan_filled():
                launched = launch(self._function, placed, self._subject.setting.operation, wait=self._most == 1)
            self._made.append(_Made(size, bits, layout, launched))
            if any(violation.kind is FindingKind.CRASH for violation in launched.broken):
                self._crash = launched.broken[0]
                return
            if launched.output is not None:
                flags = self._flags(launched, launched.output)
                if self._most > 1:
                    launched = replace(launched, output=launched.output.detach().clone())
                self._made[-1] = _Made(size, bits, layout, launched, flags)
            if self._most > 1:
                # Behind all work on the current stream, so that it is known which calls were done when the device was lost.
                self._arrived[len(self._made) - 1].copy_(_mark(device), non_blocking=True)
        except RuntimeError as error:
            # The error of an earlier call shows at the next request to the device.
            violation, is_lost = raised(error, device)
            if not is_lost or not self._made:
                raise
            self._crash = violation

    def _flags(self, launched: Launched, output: torch.Tensor) -> torch.Tensor:
        """Returns the flags of an answer; the host looks at the rows of a small one."""
        unchanged, placed = launched.unchanged(), launched.placed
        if not self._screens or self._is_small(launched):
            return torch.stack([unchanged, torch.zeros_like(unchanged)])
        return torch.stack([unchanged, screened(self._subject, placed.view, output, placed.fmt).all()])

    def _is_small(self, launched: Launched) -> bool:
        output = launched.output
        return output is not None and max(launched.placed.view.nbytes, output.nbytes) <= self._echo_bytes

    def settle(self) -> list[tuple[int, Judged]]:
        """Returns each call made since the last time, by size and in order, with its violations.

        If the device is lost, the list ends with the call that lost it, and has none of the calls of its group whose outputs were
        still to be judged.
        """
        made, self._made = self._made, []
        crash, self._crash = self._crash, None
        if made and crash is None:
            try:
                synchronize(self._subject.device)
            except RuntimeError as error:
                crash, is_lost = raised(error, self._subject.device)
                if not is_lost:
                    raise
        arrived = self._arrived[: len(made)].flatten().tolist()
        self._arrived.zero_()
        if crash is None:
            return self._settled(made)
        # The first call of which nothing arrived lost the device, or the last one, by work on another stream.
        place = arrived.index(0) if 0 in arrived else len(made) - 1
        unanswered = [one for one in made[:place] if one.launched.output is None]
        before = [(one.size, one.judged((*one.launched.broken, *one.launched.changed))) for one in unanswered]
        lost = made[place]
        violations = (crash, *lost.launched.changed)
        return [*before, (lost.size, Judged(None, violations, fatal=True))]

    def _settled(self, made: Sequence[_Made]) -> list[tuple[int, Judged]]:
        # A transfer waits for the device: those of all calls are made in one.
        flags = [one.flags for one in made if one.flags is not None]
        told = iter(torch.stack(flags).tolist() if flags else [])
        looked_at = [(True, True) if one.flags is None else next(told) for one in made]
        unread = [one.launched.output for one, (_, passes) in zip(made, looked_at, strict=True) if not passes]
        read = iter(all_to_bits([output for output in unread if output is not None], self._subject.setting.fmt))
        found = []
        for one, (is_unchanged, passes) in zip(made, looked_at, strict=True):
            modified = () if is_unchanged else one.launched.modified()
            violations = (*modified, *one.launched.broken, *one.launched.changed)
            output = None if passes else next(read)
            if output is not None:
                violations += self._wrong(one, output)
            found.append((one.size, one.judged(violations)))
        return found

    def _wrong(self, made: _Made, output_bits: Bits) -> tuple[Violation, ...]:
        """Returns the judge's violations for an output that the screen does not pass."""
        subject, setting, bits = self._subject, self._subject.setting, made.bits
        launched, fmt = made.launched, setting.fmt
        x, output = launched.placed.view, launched.output
        assert output is not None
        if self._is_small(launched):
            host = torch.device("cpu")
            x, output = to_tensor(bits, fmt, host), to_tensor(output_bits, format_of(output_bits, fmt), host)
        if self._screens and right_where_it_lies(subject, x, output, bits, output_bits, launched, fmt):
            return ()

        def judge_bits(found: Bits, most: int | None = None) -> Measurement:
            of_library = launched.of_cpu_library
            return judge_call(
                subject.variant, bits[:most], found[:most], fmt, subject.device, of_cpu_library=of_library
            )

        # A finding needs a few of many wrong heads, and each judgement of all of them may take a minute.
        few: int | None = max(1, _MOST_NUMBERS // max(1, output_bits[:1].size))
        has_more = setting.operation.parts is not None and len(bits) > (few or 0)
        measured = judge_bits(output_bits, few) if has_more else None
        if measured is None or not measured.violations:
            few = None
            if setting.on_gpu and bits.size > _MANY_ELEMENTS:
                values, answer = x.contiguous(), output.contiguous()
                measured = by_contract(
                    subject.variant,
                    fmt,
                    (bits.shape[0], bits.shape[1]),
                    subject.device,
                    lambda arithmetic: judge_in_place(subject.variant, values, answer, fmt, arithmetic),
                )
            else:
                measured = judge_bits(output_bits)
        attempt = Attempt(
            function=self._function,
            operation=setting.operation,
            bits=bits,
            fmt=fmt,
            layout=made.layout,
            device=subject.device,
            output=output_bits,
            judge=partial(judge_bits, most=few),
        )
        return diagnose(attempt, measured).violations


@cache
def _arrived(device_type: str) -> torch.Tensor:
    """Pinned memory for a mark of each call of a group, uint8 [MOST, 1], since copies to other memory are synchronous."""
    found = torch.zeros(MOST, 1, dtype=torch.uint8, pin_memory=device_type == "cuda")
    # It is never freed, not even at exit. When pinned memory is freed, torch asks the device whether its copies are done, and
    # aborts the process if that device is lost.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(found))
    return found


@cache
def _mark(device: torch.device) -> torch.Tensor:
    return torch.ones(1, dtype=torch.uint8, device=device)


def judged(subject: Subject, bits: Bits, function: Callable[[torch.Tensor], Any] | None = None) -> Judged:
    """Calls the variant, or ``function`` in its place, on packed rows in NaN-poisoned memory, and judges its output."""
    calls = Calls(subject, function)
    calls.make(bits)
    [(_, found)] = calls.settle()
    return found
