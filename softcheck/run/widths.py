"""How wide rows may be before a variant's kernels take too long to compile. Imports no torch.

A kernel that holds a whole row in one block takes about four times as long to compile with each doubling of the block. So widths
are tried upwards, and what the last two took foretells the next.
"""

import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from softcheck.run.process import Waits, WorkerDiedError
from softcheck.run.protocol import Failed, TryWidth, WidthTried

if TYPE_CHECKING:
    from softcheck.run.pool import Pool

COMPILE_SECONDS = 10.0
"""What the kernels of one call may take to compile, if nothing else is asked for."""

FREE = 2**11
"""Columns up to which rows are run without asking; a block of so many compiles in a fraction of a second."""

WIDEST = 2**20
"""Elements of a tensor in Triton at most; a block is not wider."""

_STEEPEST = 8.0
"""Times by which a doubling may be foretold to take longer. Measured are 2 to 6."""

_GROWING = 1.5
"""A compilation that takes less than this times as long as that of half the width does not depend on the width."""


class WidthLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The first width at which a variant was not tried."""

    variant: str
    dtype: str
    columns: int
    """A power of two: a block of so many elements serves all widths from half of it plus one on."""
    seconds: float | None
    """What compiling is foretold to take; None where it was begun and did not end within ``waited``."""
    waited: float | None = None

    @property
    def holds_to(self) -> int:
        """The largest width that is tried."""
        return self.columns // 2

    def __str__(self) -> str:
        took = (
            f"was not compiled within {self.waited:g} s"
            if self.seconds is None
            else f"would take {figure(self.seconds)} s to compile"
        )
        return f"{self.columns} {took}"


def figure(seconds: float) -> str:
    """Two significant digits of what is foretold."""
    return f"{float(f'{seconds:.2g}'):g}"


class Widths:
    """What has been tried, by variant and dtype. Threads may share it: one tries the next width, the others wait for it."""

    def __init__(self, budget: float = COMPILE_SECONDS) -> None:
        self.budget = budget
        self.on_found: Callable[[WidthLimit], None] = lambda _: None
        self._changed = threading.Condition()
        self._climbs: dict[tuple[str, str], _Climb] = {}

    def limit(self, pool: "Pool", variant: str, dtype: str, columns: int) -> WidthLimit | None:
        """The limit below ``columns``, if there is one. Tries widths up to it on the pool's workers, if that was not done."""
        with self._changed:
            climb = self._climbs.setdefault((variant, dtype), _Climb())
        while True:
            with self._changed:
                while not climb.is_known(columns) and climb.is_climbing:
                    self._changed.wait()
                if climb.is_known(columns):
                    return climb.limit if climb.limit is not None and columns > climb.limit.holds_to else None
                climb.is_climbing = True
            try:
                self._step(pool, climb, variant, dtype)
            finally:
                with self._changed:
                    climb.is_climbing = False
                    self._changed.notify_all()

    def limits(self) -> list[WidthLimit]:
        """All that were found."""
        with self._changed:
            return [climb.limit for climb in self._climbs.values() if climb.limit is not None]

    def know(self, limit: WidthLimit) -> None:
        """Takes a limit over that was found before."""
        with self._changed:
            self._climbs[limit.variant, limit.dtype] = _Climb(limit)

    def _step(self, pool: "Pool", climb: "_Climb", variant: str, dtype: str) -> None:
        columns = 2 * climb.tried
        foretold = climb.foretold(columns)
        limit = None
        if foretold is not None and foretold > self.budget:
            limit = WidthLimit(variant=variant, dtype=dtype, columns=columns, seconds=foretold)
        else:
            waited = max(60.0, 4 * self.budget)
            try:
                climb.took.append((columns, _tried(pool, TryWidth(variant, dtype, columns), waited)))
            except WorkerDiedError as died:
                if pool.closed:
                    raise
                if died.was_preparing:
                    limit = WidthLimit(variant=variant, dtype=dtype, columns=columns, seconds=None, waited=waited)
                # A call that ends its process is for cases and probes to find, at any width.
                climb.tried = WIDEST
        with self._changed:
            climb.tried = max(climb.tried, columns)
            climb.limit = limit
        if limit is not None:
            self.on_found(limit)


class _Climb:
    """Widths of one variant in one dtype."""

    def __init__(self, limit: WidthLimit | None = None) -> None:
        self.limit = limit
        self.tried = FREE
        self.is_climbing = False
        self.took: list[tuple[int, float | None]] = []
        """Widths and seconds; None where they are not known."""

    def is_known(self, columns: int) -> bool:
        """Whether no other width need be tried for this one."""
        return self.limit is not None or min(columns, WIDEST) <= self.tried

    def foretold(self, columns: int) -> float | None:
        """Seconds that a width will take; None where nothing is known, or where seconds don't grow with the width."""
        known = [(width, seconds) for width, seconds in self.took if seconds]
        if len(known) < 2:
            return None
        (narrow, before), (wide, now) = known[-2:]
        growth = min(_STEEPEST, (now / before) ** (1 / math.log2(wide / narrow)))
        return None if growth < _GROWING else now * growth ** math.log2(columns / wide)


def _tried(pool: "Pool", request: TryWidth, seconds: float) -> float | None:
    worker = pool.take()
    worker.loaded.add(request.variant)
    try:
        limits = Waits(calling=pool.seconds, preparing=seconds)
        for reply in worker.ask(request, until=(WidthTried, Failed), seconds=lambda: limits):
            if isinstance(reply, WidthTried):
                (pool.retire if reply.fatal else pool.give)(worker)
                return reply.seconds
    except WorkerDiedError as died:
        pool.bury(worker, died, request.variant)
        raise
    # No memory for so wide an input: whoever needs it says so.
    pool.give(worker)
    return None
