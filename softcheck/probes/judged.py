"""Calls together with the judgement of their outputs, which is made on the device as far as that is quicker."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from oracles.formats import Bits
from softcheck.calling.call import Returned, place, to_bits
from softcheck.cases.case import PACKED
from softcheck.probes.base import Subject
from softcheck.probes.diagnose import Attempt, diagnose
from softcheck.probes.helpers import call_placed, wrong_where_it_lies


def judged(subject: Subject, bits: Bits, function: Callable[[torch.Tensor], Any] | None = None) -> Returned:
    """Calls the variant, or ``function`` in its place, on packed rows in NaN-poisoned memory, and returns all promises that it breaks."""
    fmt, device, function = subject.setting.fmt, subject.device, function or subject.variant.function
    placed = place(bits, fmt, PACKED, device)
    returned = call_placed(subject.calling(function), placed)
    if returned.output is None:
        return returned
    wrong = wrong_where_it_lies(subject, bits, returned.output, returned, fmt, placed.view)
    if wrong:
        operation, output = subject.setting.operation, to_bits(returned.output, fmt)
        attempt = Attempt(function=function, operation=operation, bits=bits, fmt=fmt, device=device, output=output)
        wrong = diagnose(attempt, wrong)
    return replace(returned, violations=(*returned.violations, *wrong))
