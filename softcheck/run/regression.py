"""Conversion of a failing input into a saved regression: confirms that it fails, shrinks it, names it.

Fewer rows, fewer columns and simpler values are tried as long as the input fails.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracles.formats import Bits, encode
from softcheck.cases.case import PACKED, Case, check_contents
from softcheck.cases.corpus_edit import compacted
from softcheck.contract import FindingKind, Violation
from softcheck.errors import UsageError
from softcheck.run.session import Session

FAMILY = "regression"


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A failing case, shrunk, with the promise that it breaks and its original shape."""

    case: Case
    violation: Violation
    was: tuple[int, int]


def shrink_failure(session: Session, variant: str, case: Case, kind: FindingKind | None) -> Shrunk:
    """Returns the smallest input found on which ``variant`` breaks the same promise as on ``case``.

    ``kind`` is the promise; None takes the first broken one. Raises UsageError if nothing fails.
    """
    declared = session.load(variant)
    if isinstance(declared, str):
        raise UsageError(f"{variant}: {declared}")

    def violations(candidate: Case) -> tuple[Violation, ...]:
        (result,) = session.run_case(candidate, [variant], whole=True)
        if result.measurement.skipped is not None:
            raise UsageError(f"{variant}: {result.measurement.skipped}")
        return result.measurement.violations

    def broken(candidate: Case, wanted: FindingKind | None) -> Violation | None:
        return next((v for v in violations(candidate) if wanted is None or v.kind == wanted), None)

    first = broken(case, kind)
    if first is None:
        expected = "any promise" if kind is None else kind.value
        raise UsageError(
            f"{variant} does not break {expected} on this input, so it is no regression of it; leave --variant out to "
            "save the input as it is"
        )
    smallest = shrink(case, lambda candidate: broken(candidate, first.kind) is not None, row=first.row)
    last = broken(smallest, first.kind)
    return Shrunk(compacted(smallest, case), first if last is None else last, case.shape)


def named(case: Case, name: str | None, provenance: str, tags: tuple[str, ...]) -> Case:
    """The case as a regression; the name defaults to the digest of its input."""
    return msgspec.structs.replace(
        case, id=f"{FAMILY}/{case.digest if name is None else name}/{case.dtype}", provenance=provenance, tags=tags
    )


Fails = Callable[[Case], bool]

_BUDGET = 150
"""Most runs that each stage may take; under the interpreter they take a second or two."""


class _Shrinker:
    def __init__(self, case: Case, fails: Fails) -> None:
        self.case = case
        self.fails = fails
        self.left = 0

    def offer(self, candidate: Case | None) -> bool:
        """Accepts a simpler input if it still fails; None is none."""
        if self.left == 0 or candidate is None:
            return False
        self.left -= 1
        try:
            check_contents(candidate)
        except UsageError:
            # Elements that share memory must stay equal, and a bias must be added without rounding.
            return False
        if not self.fails(candidate):
            return False
        self.case = candidate
        return True

    def offer_bits(self, bits: Bits) -> bool:
        """Offers other values in the same places."""
        return self.offer(self.case.with_contents(bits, self.case.layout, self.case.operands))

    def drop(self, axis: int, first: Sequence[int] = ()) -> None:
        """Drops rows, or columns for axis 1, as delta debugging does: one is kept of ``first``, or a half, or ever smaller runs go."""

        def offer(kept: NDArray[np.int64]) -> bool:
            every = [np.arange(size) for size in self.case.shape]
            every[axis] = kept
            return self.offer(self.case.part(*every))

        if self.case.shape[axis] > 1 and any(offer(np.array([one])) for one in first):
            return
        for is_beginning in (True, False):
            passing, failing = 0, self.case.shape[axis]
            while failing - passing > 1:
                middle = (passing + failing) // 2
                every = np.arange(self.case.shape[axis])
                fails = offer(every[:middle] if is_beginning else every[-middle:])
                passing, failing = (passing, middle) if fails else (middle, failing)
        size = self.case.shape[axis] // 2
        while size >= 1 and self.left:
            end = self.case.shape[axis]
            while end - size >= 0 and self.case.shape[axis] > size:
                offer(np.delete(np.arange(self.case.shape[axis]), np.s_[end - size : end]))
                end -= size
            size //= 2


def shrink(case: Case, fails: Fails, *, row: int | None = None) -> Case:
    """Returns the simplest failing case that a few hundred runs find, or the case itself if nothing simpler fails.

    ``row`` is the row that is known to fail. ``fails`` must be true of ``case``. The result holds its bits.
    """
    search = _Shrinker(case.with_contents(case.bits(), case.layout, case.operands), fails)
    last = case.shape[0] - 1
    for stage in (
        lambda: search.offer(search.case.with_contents(search.case.bits(), PACKED, search.case.operands)),
        lambda: search.drop(0, [*([] if row is None or row > last else [row]), 0, last]),
        lambda: search.drop(1),
        lambda: _simplify_values(search),
    ):
        search.left = _BUDGET
        stage()
    return search.case


def _simplify_values(search: _Shrinker) -> None:
    """Tries zero for each operand, for every value at once, for each distinct value, then for each element of a short row."""
    fmt = search.case.format
    zero = encode(np.array([0.0]), fmt)[0]
    bits = search.case.bits()
    while (operands := search.case.operands) is not None:
        changed = [operands.with_bits({name: np.zeros_like(bits)}, fmt) for name in operands.matrices]
        simpler = (search.case.with_contents(bits, search.case.layout, each) for each in changed if each != operands)
        if not any(map(search.offer, simpler)):
            break
    if search.offer_bits(np.zeros_like(bits)):
        return
    for value in np.unique(bits)[:64]:
        current = search.case.bits()
        if value != zero and (current == value).any():
            search.offer_bits(np.where(current == value, zero, current).astype(bits.dtype))
    for index in range(min(search.case.bits().size, 64)):
        current = search.case.bits().copy()
        if current.flat[index] != zero:
            current.flat[index] = zero
            search.offer_bits(current)
