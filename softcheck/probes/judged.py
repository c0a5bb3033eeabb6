"""Calls together with the judgement of their outputs, which is made on the device as far as that is quicker."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

from oracles.formats import Bits, format_of
from softcheck.calling.call import (
    CallOutcome,
    Launched,
    Returned,
    all_to_bits,
    launch,
    place,
    raised,
    synchronize,
    to_tensor,
)
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Subject
from softcheck.probes.diagnose import Attempt, diagnose
from softcheck.probes.helpers import screened, wrong_where_it_lies
from softcheck.probes.poison import nan_filled
from softcheck.probes.predicate import Shape

MOST = 32
"""Most calls that are judged together: larger groups would save few waits."""

ECHO_BYTES = 1 << 15
"""Bytes of an output up to which it is copied to the host as a whole. Checking it there takes less time than many
kernels on a device, each of which waits for its turn among other processes' kernels."""

_FEW_COLUMNS = 64
"""Columns at which an operation is asked for the numbers that it takes for each logit."""

_GROUP_BYTES = 4 << 20
"""Bytes of inputs after which a group is settled. Each input is kept three times: as placed, as a copy, and as
output."""


@dataclass(frozen=True, slots=True)
class _Made:
    shape: Shape
    bits: Bits
    launched: Launched
    flags: torch.Tensor | None = None
    """Bool [2] on the device of an answer: the input is unchanged; all rows surely keep their bounds, as far as it was looked at there."""


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

    def make(self, bits: Bits, shape: Shape | None = None) -> None:
        """Calls the variant on these packed rows; ``settle`` returns a shape, theirs by default, with the result."""
        device = self._subject.device
        try:
            placed = place(bits, self._subject.setting.fmt, PACKED, device)
            with nan_filled():
                launched = launch(self._function, placed, self._subject.setting.operation, wait=self._most == 1)
            made = _Made(shape or Shape(*bits.shape), bits, launched)
            self._made.append(made)
            if any(violation.kind is FindingKind.CRASH for violation in launched.broken):
                self._crash = launched.broken[0]
                return
            if launched.output is not None:
                flags = self._flags(launched, launched.output)
                if self._most > 1:
                    launched = replace(launched, output=launched.output.detach().clone())
                self._made[-1] = replace(made, launched=launched, flags=flags)
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
        if self._is_small(launched):
            return torch.stack([unchanged, torch.zeros_like(unchanged)])
        return torch.stack([unchanged, screened(self._subject, placed.view, output, placed.fmt).all()])

    def _is_small(self, launched: Launched) -> bool:
        output = launched.output
        return output is not None and max(launched.placed.view.nbytes, output.nbytes) <= self._echo_bytes

    def settle(self) -> list[tuple[Shape, Returned]]:
        """Returns each call made since the last time, by shape and in order, with all promises that it breaks.

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
        lost, unanswered = made[place], [one for one in made[:place] if one.launched.output is None]
        before: list[tuple[Shape, Returned]] = [(one.shape, one.launched.outcome(None)) for one in unanswered]
        return [*before, (lost.shape, CallOutcome(None, (crash, *lost.launched.changed), fatal=True))]

    def _settled(self, made: Sequence[_Made]) -> list[tuple[Shape, Returned]]:
        # A transfer waits for the device: those of all calls are made in one.
        flags = [one.flags for one in made if one.flags is not None]
        told = iter(torch.stack(flags).tolist() if flags else [])
        looked_at = [(True, True) if one.flags is None else next(told) for one in made]
        unread = [one.launched.output for one, (_, passes) in zip(made, looked_at, strict=True) if not passes]
        read = iter(all_to_bits([output for output in unread if output is not None], self._subject.setting.fmt))
        found = []
        for one, (is_unchanged, passes) in zip(made, looked_at, strict=True):
            outcome = one.launched.outcome(one.launched.output, unchanged=is_unchanged)
            if not passes:
                outcome = replace(outcome, violations=(*outcome.violations, *self._wrong(one, next(read))))
            found.append((one.shape, outcome))
        return found

    def _wrong(self, made: _Made, found: Bits) -> tuple[Violation, ...]:
        """Returns what the judge says of an output that was not passed on its device."""
        subject, fmt, launched = self._subject, self._subject.setting.fmt, made.launched
        x, output = launched.placed.view, launched.output
        assert output is not None
        if self._is_small(launched):
            host = torch.device("cpu")
            x, output = to_tensor(made.bits, fmt, host), to_tensor(found, format_of(found, fmt), host)
        attempt = Attempt(
            function=self._function,
            operation=subject.setting.operation,
            bits=made.bits,
            fmt=fmt,
            device=subject.device,
            output=found,
        )
        return diagnose(attempt, wrong_where_it_lies(subject, made.bits, output, launched, fmt, x=x, found=found))


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


def judged(subject: Subject, bits: Bits) -> Returned:
    """Calls the variant on packed rows in NaN-poisoned memory, and judges its output."""
    calls = Calls(subject)
    calls.make(bits)
    [(_, found)] = calls.settle()
    return found
