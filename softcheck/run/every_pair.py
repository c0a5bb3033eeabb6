"""Every pair of a 16-bit dtype's patterns, judged on a GPU beside the cases and probes, which mostly keep the host busy."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from oracles.formats import FORMATS
from softcheck.cases.exhaustive import Domain, domain
from softcheck.errors import SoftcheckError
from softcheck.run.exhaust import Exhausted, exhaust_within
from softcheck.run.record import Record
from softcheck.run.session import Session
from softcheck.variants.declaration import Declaration

SECONDS = 20.0
"""Per variant and dtype: several times what they take where few rows are in doubt and nothing else uses the GPU."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A variant and the pairs to judge it on."""

    variant: str
    declaration: Declaration
    domain: Domain


def wanted(declarations: dict[str, Declaration], dtypes: Sequence[str]) -> list[Wanted]:
    """What declares a 16-bit dtype and rows of two columns."""
    return [
        Wanted(name, declaration, domain(dtype, 2))
        for name, declaration in declarations.items()
        for dtype in dtypes
        if FORMATS[dtype].width == 16 and dtype in declaration.dtypes and (declaration.column_limit(dtype) or 2) >= 2
    ]


class EveryPair:
    """Works through what is wanted in a thread and on a worker of its own, from when it is made."""

    def __init__(self, session: Session, todo: Sequence[Wanted], record: Record) -> None:
        self._session = session
        self._record = record
        # One GPU is kept busy by one process; a second would only halve the memory.
        self._thread = ThreadPoolExecutor(1)
        self._found: list[Future[tuple[Exhausted | None, str | None]]] = [
            self._thread.submit(self._judge, each) for each in todo
        ]

    def wait(self, progress: Callable[[int, int], None]) -> None:
        """Returns when all is judged."""
        for done, future in enumerate(self._found, start=1):
            future.exception()
            progress(done, len(self._found))

    def end(self) -> tuple[list[Exhausted], list[str]]:
        """What was judged, and a message for each that could not be, or not to its end.

        What an interruption cut off is kept as far as it came, without a message. The session must be closed first then, or
        a part that no one will read is waited for.
        """
        self._thread.shutdown(wait=True, cancel_futures=True)
        found = [future.result() for future in self._found if not future.cancelled()]
        return [judged for judged, _ in found if judged is not None], [said for _, said in found if said is not None]

    def _judge(self, each: Wanted) -> tuple[Exhausted | None, str | None]:
        variant, dtype = each.variant, each.domain.dtype
        kept = self._record.exhausted.get((variant, dtype))
        if kept is not None or self._session.patience.over(variant, dtype) is not None:
            return kept, None
        name = f"{variant}, every pair of {dtype} patterns"
        try:
            found = exhaust_within(self._session, variant, each.declaration, each.domain, SECONDS)
            if found.ended is None:
                self._record.add_exhausted(found)
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
