"""Calls that differ in what must not matter: their answers have the same bits."""

from collections.abc import Callable
from types import EllipsisType

import numpy as np

from oracles.formats import Bits, Format, bits_hex, decode, format_of
from softcheck.calling.call import Called, to_bits
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Subject
from softcheck.probes.helpers import prefixed, stopped
from softcheck.probes.judged import judged
from softcheck.probes.outcome import Outcome

Kept = np.ndarray | None
"""Elements of an answer that count: those of an array of bool, of a shape that fits; None for all."""
Places = np.ndarray | EllipsisType
"""Columns of an answer."""

_REPEATS = 6
"""Equal calls that must agree: one that has two answers by chance passes both for the cause of a difference in 1 of 4096 cases."""


class Repeated:
    """A call that can be made again; ``made`` is its outcome where it was made already."""

    def __init__(self, make: Callable[[], Called], made: Called | None = None) -> None:
        self.make, self._made = make, made

    @property
    def first(self) -> Called:
        """The call, made once."""
        if self._made is None:
            self._made = self.make()
        return self._made

    def repeats(self, fmt: Format, kept: Kept = None) -> bool:
        """True if it gives the same bits each time it is made again, where an element is ``kept``.

        A kernel that varies by itself is not accused of what changes its answer. One that adds atomically may have two answers, and
        gives the one that was seen every second time.
        """
        seen, where = self.first.output, True if kept is None else kept
        outputs = (self.make().output for _ in range(_REPEATS))
        return seen is not None and all(
            output is not None and bool(same_bits(seen, output, fmt).all(where=where)) for output in outputs
        )


def unlike(
    one: Repeated,
    other: Repeated,
    kind: FindingKind,
    message: str,
    fmt: Format,
    *,
    kept: Kept = None,
    inputs: Bits | None = None,
    varies: bool = False,
) -> Outcome | None:
    """Compares two calls that differ in what should not matter to the elements that are ``kept``.

    Returns None if these have the same bits, or if one of the calls varies by itself, unless that is what is asked, as ``varies`` says;
    and else what ends the trial: a violation, or that a call gave no answer.
    """
    for called in (one.first, other.first):
        if called.output is None:
            return stopped(called)
    assert one.first.output is not None
    assert other.first.output is not None
    expected = one.first.output if kept is None else np.where(kept, one.first.output, other.first.output)
    found = differing(kind, expected, other.first.output, fmt, message, inputs)
    if found is None or not (varies or (one.repeats(fmt, kept) and other.repeats(fmt, kept))):
        return None
    return Outcome(violations=(found,))


def judged_beside(
    before: Called,
    subject: Subject,
    bits: Bits,
    words: str,
    shows: str,
    of_before: Places = ...,
    of_after: Places = ...,
) -> Outcome:
    """Judges a changed call, and says by the property that it ``shows`` whether its answer, in some columns, has the bits of the one before."""
    after, fmt = judged(subject, bits), subject.setting.fmt
    fatal, violations = before.fatal or after.fatal, prefixed(after.violations, words)
    if before.output is None or after.output is None:
        return Outcome(violations=violations or before.violations, fatal=fatal)
    same = same_bits(before.output[:, of_before], to_bits(after.output, fmt)[:, of_after], fmt)
    return Outcome(violations=violations, properties={shows: bool(same.all())}, fatal=fatal)


def differing(
    kind: FindingKind, expected: Bits, found: Bits, fmt: Format, message: str, inputs: Bits | None = None
) -> Violation | None:
    """Returns a violation if two outputs of one shape, [..., numbers], differ in a bit, with the first such element.

    All NaNs are alike. A row is one along the last dimension.
    """
    unequal = ~same_bits(expected, found, fmt)
    if not unequal.any():
        return None
    at = int(np.argmax(unequal))
    row, column = divmod(at, unequal.shape[-1])
    # A number of a head belongs to no one element of the matrix.
    input_bits = None if inputs is None or inputs.shape != found.shape else bits_hex(int(inputs.flat[at]), fmt)
    fmt = format_of(found, fmt)
    before, after = (bits_hex(int(bits.flat[at]), fmt) for bits in (expected, found))
    return Violation(
        kind,
        f"{message}: {int(unequal.sum())} of {unequal.size} output elements, first at row {row}, column {column}: "
        f"{after}, expected {before} as before",
        count=int(unequal.sum()),
        row=row,
        column=column,
        input_bits=input_bits,
        output_bits=after,
    )


def same_bits(first: Bits, second: Bits, fmt: Format) -> np.ndarray:
    """Returns where two arrays of bits agree, bool of their shape; two NaNs agree whatever their payload."""
    same: np.ndarray = first == second
    # Most outputs are equal throughout, and a test for NaN must decode every element.
    are_nan = [] if same.all() else [np.isnan(decode(bits, format_of(bits, fmt))) for bits in (first, second)]
    return same | (are_nan[0] & are_nan[1]) if are_nan else same
