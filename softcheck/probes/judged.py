"""Calls with the judgement of their outputs, and second runs that show why one is wrong.

Memory was never written, or strides were ignored.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import torch

from oracles.formats import Bits, Format, Values, bits_hex, decode, encode, format_of
from softcheck.calling.call import Returned, call, place, to_bits
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import VALUE_KINDS, FindingKind, Violation
from softcheck.errors import UninterpretableError
from softcheck.operations.operation import Operation
from softcheck.probes.base import Subject
from softcheck.probes.helpers import call_placed, named_operands, wrong_where_it_lies
from softcheck.probes.poison import filled, nan_filled

_SENTINEL = 0.34375
"""A value that softmax may return but that no case's answer equals by design. It is exact in every format."""


def judged(subject: Subject, bits: Bits, function: Callable[[torch.Tensor], Any] | None = None) -> Returned:
    """Calls the variant, or ``function`` in its place, on packed rows in NaN-poisoned memory, and judges its output."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A judged call: the function, its input and output, and what is wrong of another output of the same input."""

    function: Callable[[torch.Tensor], Any]
    operation: Operation
    bits: Bits
    fmt: Format
    layout: Layout = PACKED
    device: torch.device
    output: Bits
    wrong: Callable[[Bits], tuple[Violation, ...]] = lambda _: ()

    @property
    def output_format(self) -> Format:
        """The format of the output."""
        return format_of(self.output, self.fmt)

    def again(self, layout: Layout) -> Bits | None:
        """Calls again on the same values in another layout, and returns the output or None."""
        try:
            return call(self.function, place(self.bits, self.fmt, layout, self.device), self.operation).output
        except UninterpretableError:
            return None


def diagnose(attempt: Attempt, violations: tuple[Violation, ...]) -> tuple[Violation, ...]:
    """Attributes value violations to their cause, as far as second runs show it; others stay as they are."""
    if any(v.kind in VALUE_KINDS for v in violations):
        violations = _unwritten(attempt, violations)
        violations = _layout_ignored(attempt, violations)
    return violations


def _unwritten(attempt: Attempt, violations: tuple[Violation, ...]) -> tuple[Violation, ...]:
    """Finds elements that hold one poison after one run and another poison after the next."""
    fmt = attempt.output_format
    poisoned = np.isnan(decode(attempt.output, fmt))
    if not poisoned.any():
        return violations
    with filled(_SENTINEL):
        second = attempt.again(attempt.layout)
    if second is None:
        return violations
    unwritten = poisoned & (second == encode(np.array([_SENTINEL]), fmt)[0])
    if not unwritten.any():
        return violations
    row, column = (int(i[0]) for i in np.nonzero(unwritten))
    found = Violation(
        FindingKind.UNWRITTEN_OUTPUT,
        f"{int(unwritten.sum())} of {unwritten.size} output elements were never written (they hold whatever the memory "
        f"held before), first at row {row}, column {column}; expected every element to be stored",
        count=int(unwritten.sum()),
        row=row,
        column=column,
        input_bits=bits_hex(attempt.bits[row, column], attempt.fmt) if attempt.operation.answers_elements else "",
        output_bits=bits_hex(attempt.output[row, column], fmt),
        around=next((v.around for v in violations if (v.row, v.column) == (row, column)), None),
    )
    unexplained = poisoned & ~unwritten & ~np.isnan(decode(attempt.bits, attempt.fmt)).any(axis=1, keepdims=True)
    kept = violations if unexplained.any() else tuple(v for v in violations if v.kind is not FindingKind.NAN_MISMATCH)
    return (found, *kept)


def differ_grossly(strided: Values, packed: Values) -> bool:
    """True if an element differs by more than an eighth of the larger value, or is NaN in one output only.

    Such a difference means that other elements were read. A smaller difference is rounding: some kernels take another
    path for other strides, and only their accuracy can be wrong.
    """
    largest = np.fmax(np.abs(strided), np.abs(packed))
    # Tiny probabilities are subnormal in 16 bits, and differ by large fractions after rounding alone.
    matters = largest > 1e-3 * np.nanmax(largest, initial=0.0)
    with np.errstate(invalid="ignore"):
        far = np.abs(strided - packed) > largest / 8
    return bool(((far & matters) | (np.isnan(strided) != np.isnan(packed))).any())


def _layout_ignored(attempt: Attempt, violations: tuple[Violation, ...]) -> tuple[Violation, ...]:
    """Replaces the value violations that vanish on a contiguous copy of the same input by one ``wrong_layout``."""
    columns = attempt.bits.shape[1]
    if attempt.layout.is_contiguous(columns):
        return violations
    with nan_filled():
        packed = attempt.again(PACKED)
    if packed is None:
        return violations
    also_packed = {v.kind for v in attempt.wrong(packed)}
    caused = [v for v in violations if v.kind in VALUE_KINDS and v.kind not in also_packed]
    strided, other = (decode(output, attempt.output_format) for output in (attempt.output, packed))
    if not caused or not differ_grossly(strided, other):
        return violations
    strides = attempt.layout.strides(columns)
    names = named_operands(attempt.function, attempt.operation)
    words = f"right on contiguous copies, wrong with strides {strides} and offset {attempt.layout.offset} of {names}"
    found = msgspec.structs.replace(caused[0], kind=FindingKind.WRONG_LAYOUT)
    return (found.told(words, layout="strided", operand=names), *(v for v in violations if v not in caused))
