"""A call with everything that the judge finds wrong with its output, judged where it lies as far as that is quicker."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from oracles.formats import Bits, Format
from softcheck.cases.case import PACKED
from softcheck.contract import Violation
from softcheck.judge.judge import judge
from softcheck.judge.measurement import Measurement
from softcheck.probes import screen
from softcheck.probes.base import Subject
from softcheck.probes.diagnose import Attempt, diagnose
from softcheck.probes.poison import nan_filled
from softcheck.variants.call import Placed, call_on_device, place, to_bits

_MANY_ELEMENTS = 1 << 20
"""On a GPU, outputs of more elements are judged by the device judge, whose kernels take seconds to compile."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A call's output on the device, None where there is none, and all promises that it breaks."""

    output: torch.Tensor | None
    violations: tuple[Violation, ...]
    fatal: bool
    seconds: float
    """What the call itself took, compilation included."""

    def bits(self, fmt: Format) -> Bits | None:
        """The output's bit patterns on the host."""
        return None if self.output is None else to_bits(self.output, fmt)


def judged(subject: Subject, bits: Bits, function: Callable[[torch.Tensor], Any] | None = None) -> Judged:
    """Calls the variant, or ``function`` in its place, on packed rows in NaN-poisoned memory, and judges its output."""
    called = subject.variant.function if function is None else function
    placed = place(bits, subject.setting.fmt, PACKED, subject.device)
    begun = time.perf_counter()
    with nan_filled():
        returned = call_on_device(called, placed)
    seconds = time.perf_counter() - begun
    if returned.output is None:
        return Judged(None, returned.violations, returned.fatal, seconds)
    wrong = _wrong(subject, bits, placed, returned.output, called)
    return Judged(returned.output, (*returned.violations, *wrong), returned.fatal, seconds)


def _wrong(
    subject: Subject, bits: Bits, placed: Placed, output: torch.Tensor, function: Callable[[torch.Tensor], Any]
) -> tuple[Violation, ...]:
    fmt, masked = subject.setting.fmt, subject.setting.declaration.fully_masked
    if subject.setting.on_gpu and bool(screen.passing(placed.view, output, fmt).all()):
        return ()

    def judge_bits(found: Bits) -> Measurement:
        return judge(bits, found, fmt, fully_masked=masked)

    attempt = Attempt(
        function=function,
        bits=bits,
        fmt=fmt,
        layout=PACKED,
        device=subject.device,
        output=to_bits(output, fmt),
        judge=judge_bits,
    )
    if subject.setting.on_gpu and bits.size > _MANY_ELEMENTS:
        # Imports Triton, whose own functions are interpreted or not by what TRITON_INTERPRET says at that moment.
        from softcheck.judge.device.trust import DistrustedError, judge_trusted

        try:
            measured = judge_trusted(placed.view, output, fmt, fully_masked=masked)
        except DistrustedError:
            # The numpy judge is slower and as right; who is to know of it reads it beside the exhaustive pairs.
            measured = judge_bits(attempt.output)
    else:
        measured = judge_bits(attempt.output)
    return diagnose(attempt, measured).violations
