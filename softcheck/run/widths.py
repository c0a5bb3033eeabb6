"""Search for the widest rows whose kernels compile within a time limit. Imports no torch.

A kernel that holds a whole row in one block takes about four times as long to compile with each doubling of the block.
Widths are therefore tried upwards, and the seconds of the last two widths foretell those of the next.
"""

import math
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from softcheck.run.process import WorkerDiedError, waits
from softcheck.run.protocol import TryWidth, WidthTried

if TYPE_CHECKING:
    from softcheck.run.pool import Pool

COMPILE_SECONDS = 10.0
"""Seconds that the kernels of one width may take to compile in a report, by default."""

FREE = 2**11
"""Columns up to which rows run without a trial. A block of so many columns compiles in a fraction of a second."""

WIDEST = 2**20
"""Most elements of a tensor in Triton, and so the widest block."""

_STEEPEST = 8.0
"""Largest factor by which a doubling of the width may be foretold to take longer. Measured factors are 2 to 6."""

_FORMS = 2
"""Times that a report compiles the kernels of a width, at least: for sizes and strides divisible by 16, and for others."""

_GROWING = 1.5
"""Factor of compile time per doubling of the width, below which compile time does not depend on the width."""


class WidthLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The first width at which a variant was not tried."""

    variant: str
    dtype: str
    columns: int
    """A power of two: a block of so many elements serves all widths from half of it plus one on."""
    seconds: float | None
    """Foretold seconds of compilation; None if a compilation was begun and did not end within ``waited``."""
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
    """Formats foretold seconds with two significant digits."""
    return f"{float(f'{seconds:.2g}'):g}"


class Widths:
    """Widths tried so far, by variant and dtype.

    Threads may share this object: one thread tries the next width while the others wait for it.
    """

    def __init__(self, budget: float = COMPILE_SECONDS) -> None:
        self.budget = budget
        self.on_found: Callable[[WidthLimit], None] = lambda _: None
        self._lock = threading.Lock()
        self._climbs: dict[tuple[str, str], _Climb] = {}

    def limit(self, pool: "Pool", variant: str, dtype: str, columns: int) -> WidthLimit | None:
        """The limit below ``columns``, or None. Tries the untried widths up to there, as far as declared, on the pool."""
        declared = pool.declarations.get(variant)
        promised = None if declared is None else declared.column_limit(dtype)
        columns = columns if promised is None else min(columns, promised)
        with self._lock:
            climb = self._climbs.setdefault((variant, dtype), _Climb())
        if not climb.is_known(columns):
            with climb.stepping:
                while not climb.is_known(columns):
                    self._step(pool, climb, variant, dtype, promised)
        return climb.limit if climb.limit is not None and columns > climb.limit.holds_to else None

    def limits(self) -> list[WidthLimit]:
        """Returns all limits found so far."""
        with self._lock:
            return [climb.limit for climb in self._climbs.values() if climb.limit is not None]

    def know(self, limit: WidthLimit) -> None:
        """Adds a limit that was found before, such as by the run that is resumed."""
        with self._lock:
            self._climbs[limit.variant, limit.dtype] = _Climb(limit)

    def _step(self, pool: "Pool", climb: "_Climb", variant: str, dtype: str, promised: int | None) -> None:
        columns = 2 * climb.tried
        seconds, waited, ended = climb.foretold(columns), None, False
        if seconds is None or seconds <= self.budget:
            limits = waits(pool.seconds)._replace(preparing=max(60.0, 4 * self.budget))
            # A narrower row than the block's width compiles the same block.
            request = TryWidth(variant, dtype, columns if promised is None else min(columns, promised))
            worker = pool.take(variant)
            worker.loaded.add(variant)
            seconds = None
            try:
                *_, reply = pool.ask(worker, request, limits=lambda _: limits)
                # The case or probe that needs more memory than there is reports that.
                climb.took.append((columns, reply if isinstance(reply, WidthTried) else WidthTried(seconds=None)))
            except WorkerDiedError as died:
                # Cases and probes report a call that ends its process, at any width.
                waited, ended = limits.preparing if died.was_preparing else None, True
        if seconds is not None or waited is not None:
            climb.limit = WidthLimit(variant=variant, dtype=dtype, columns=columns, seconds=seconds, waited=waited)
            self.on_found(climb.limit)
        climb.tried = WIDEST if ended else columns


class _Climb:
    """The widths tried for one variant in one dtype, and the limit found."""

    def __init__(self, limit: WidthLimit | None = None) -> None:
        self.limit = limit
        self.tried = FREE
        self.stepping = threading.Lock()
        self.took: list[tuple[int, WidthTried]] = []
        """Columns, each with the trial's result."""

    def is_known(self, columns: int) -> bool:
        """True if no further width need be tried for this one."""
        return self.limit is not None or min(columns, WIDEST) <= self.tried

    def foretold(self, columns: int) -> float | None:
        """Seconds foretold for a width; None if nothing is known, or if compile time does not grow with the width."""
        known = [(wide, each.seconds) for wide, each in self.took if each.seconds]
        of_compiler = all(each.of_compiler for _, each in self.took)
        # A first call may be slow once for other reasons, such as a device that is busy; a compiler grows steadily.
        least = 2 if of_compiler else 3
        asked = known[-least:]
        if len(asked) < least:
            return None
        growths = [
            (now / before) ** (1 / math.log2(wide / narrow)) for (narrow, before), (wide, now) in pairwise(asked)
        ]
        if min(growths) < _GROWING or not (of_compiler or max(growths) < _STEEPEST):
            return None
        wide, now = asked[-1]
        return float(_FORMS * now * min(_STEEPEST, growths[-1]) ** math.log2(columns / wide))
