"""Every pair of a 16-bit dtype's patterns, judged on a GPU while cases and probes mostly keep the host busy."""

import collections
import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from oracles.formats import FORMATS
from softcheck.cases.exhaustive import Domain, domain
from softcheck.errors import SoftcheckError
from softcheck.run.exhaust import Exhausted, exhaust_within
from softcheck.run.record import Kept, Record
from softcheck.run.session import Session
from softcheck.variants.declaration import Declaration
from softcheck.variants.forms import names_in

_SECONDS = 20.0
"""Seconds per variant and dtype: several times what all pairs take if few rows are in doubt and the GPU is otherwise idle."""


@dataclass(frozen=True, slots=True)
class PairsTask:
    """A variant and the pairs to judge it on."""

    variant: str
    declaration: Declaration
    domain: Domain


def wanted(variant: str, declaration: Declaration, dtypes: Sequence[str]) -> list[PairsTask]:
    """The pairs of each 16-bit dtype that the variant declares, if it declares rows of two columns.

    None where the operation has no judge on the device, since the numpy judge would take hours, where a row's answer has parts, since a
    head of two keys has a hundred numbers and more, and where each row is a call of its own.
    """
    computed = declaration.computed
    is_of_rows = computed.matrix is not None or "x1" in names_in(declaration.call)
    if computed.on_device is None or computed.parts is not None or is_of_rows:
        return []
    return [
        PairsTask(variant, declaration, domain(dtype, 2))
        for dtype in dtypes
        if FORMATS[dtype].width == 16 and dtype in declaration.dtypes and (declaration.column_limit(dtype) or 2) >= 2
    ]


WORKERS = 2
"""Workers of each device, so that while one computes on the host the other has the GPU."""


class EveryPair:
    """Judges pairs in threads and on workers of its own."""

    def __init__(self, session: Session, record: Record) -> None:
        self._session = session
        self._record = record
        self._own = threading.local()
        self._apart: list[Session] = []
        self._places = itertools.cycle(range(session.places))
        self._threads = ThreadPoolExecutor(WORKERS * session.places, initializer=self._set_apart)
        self._waiting: collections.deque[PairsTask] = collections.deque()
        self._found: list[Future[tuple[Exhausted | None, str | None]]] = []

    def add(self, each: PairsTask, *, next_of_all: bool = False) -> None:
        """Queues pairs, before all queued ones if ``next_of_all``, else after them.

        Pairs of a variant whose first call is slow should not be last: while that call runs, the other worker keeps the
        GPU busy.
        """
        (self._waiting.appendleft if next_of_all else self._waiting.append)(each)
        self._found.append(self._threads.submit(self._judge_next))

    @property
    def asked(self) -> int:
        """Number of entries added."""
        return len(self._found)

    def wait(self, progress: Callable[[int, int], None]) -> None:
        """Returns when all pairs are judged, and hands the workers back."""
        for done, future in enumerate(self._found, start=1):
            future.exception()
            progress(done, len(self._found))
        for session in self._apart:
            session.rejoin()

    def _set_apart(self) -> None:
        self._own.session = self._session.apart(next(self._places))
        self._apart.append(self._own.session)

    def end(self) -> tuple[list[Exhausted], list[str]]:
        """Returns the judged pairs, and a message for each entry that could not be judged, or not to its end.

        An entry that an interruption cut off is kept as far as it came, without a message. After an interruption the
        session must be closed first; otherwise this call waits for a part that no one will read.
        """
        self._threads.shutdown(wait=True, cancel_futures=True)
        found = [future.result() for future in self._found if not future.cancelled()]
        return [judged for judged, _ in found if judged is not None], [said for _, said in found if said is not None]

    def _judge_next(self) -> tuple[Exhausted | None, str | None]:
        each = self._waiting.popleft()
        variant, dtype = each.variant, each.domain.dtype
        kept = self._record.exhausted.get((variant, dtype))
        if kept is not None or self._session.patience.over(variant, dtype) is not None:
            return kept, None
        name = f"{variant}, every pair of {dtype} patterns"
        try:
            found = exhaust_within(self._own.session, variant, each.declaration, each.domain, _SECONDS)
            if found.ended is None:
                self._record.add(Kept(exhausted=found))
                return found, None
        except SoftcheckError as error:
            return None, None if self._session.closed else f"{name}: {error}"
        except Exception as error:  # noqa: BLE001 - raised at the end, it would take the whole report with it
            return None, f"{name}: internal error: {error!r}"
        if self._session.closed:
            return found, None
        parts, first, total = found.ended.parts, found.domain.first, found.domain.total
        judged = f"{parts} part{'' if parts == 1 else 's'}, {first:,} of {total:,} rows"
        return found, f"{name}: ended after {judged}: {found.ended.why}"
