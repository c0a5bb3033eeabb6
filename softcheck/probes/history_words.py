"""The words of a finding of a history: the calls that lead to it, as few and as simple as show it."""

from collections.abc import Sequence
from itertools import groupby

import msgspec

from softcheck.contract import WRONG_KINDS, FindingKind, Violation
from softcheck.probes.steps import Code, Step

_TOLD = 4
"""Calls at the beginning and at the end of a long history that a message tells."""


class ShownError(AssertionError):
    """A promise that the last of some steps breaks, or that an output breaks after it."""

    def __init__(self, violation: Violation, codes: Sequence[Code], steps: Sequence[Step]) -> None:
        super().__init__(violation.message)
        self.violation = violation
        self.codes = tuple(codes)
        self.steps = tuple(steps)


def told(shortest: ShownError, *, varies: bool) -> Violation:
    """Returns the violation of a history, with the history in its words; one that ``varies`` did not show again."""
    shown = shortest.violation
    is_wrong = shown.kind in WRONG_KINDS
    *before, last = map(str, shortest.steps[-1:] if varies else shortest.steps)
    words = f"{last} is wrong, and right alone" if is_wrong else last
    if varies:
        words += f", as call {len(shortest.steps)} of a history that passes when it is played again"
    elif before:
        words += f", after {_in_order(before)}"
    if is_wrong and (before or varies or shortest.steps[-1].failing):
        shown = msgspec.structs.replace(shown, kind=FindingKind.NONDETERMINISTIC, share=None)
    return msgspec.structs.replace(shown, message=f"{words}: {shown.message}")


def _in_order(steps: Sequence[str]) -> str:
    """The steps in words; equal ones that follow each other are counted, and of many the middle is left out."""
    runs = [(words, len(list(run))) for words, run in groupby(steps)]
    found = [words if count == 1 else f"{count} times {words}" for words, count in runs]
    if len(found) > 2 * _TOLD:
        found[_TOLD:-_TOLD] = [f"{len(found) - 2 * _TOLD} other calls"]
    return "; ".join(found)


def is_like(one: Violation, other: Violation) -> bool:
    """True if two violations say the same: a wrong value, or the same other kind."""
    return one.kind is other.kind or (one.kind in WRONG_KINDS and other.kind in WRONG_KINDS)
