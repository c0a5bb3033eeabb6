"""Judgement of a whole domain in parts. Each part is journalled once measured, so that a killed run can be resumed."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import msgspec

from oracles.formats import FORMATS
from softcheck.cases.exhaustive import Domain, domain
from softcheck.contract import FindingKind
from softcheck.errors import SoftcheckError, TooLittleMemoryError
from softcheck.judge.measurement import Measurement, merge
from softcheck.probes.registry import Effort
from softcheck.run.journal import Journal, RunHeader, refusal
from softcheck.run.patience import MOST_DEATHS, Over
from softcheck.run.pool import Job
from softcheck.run.session import Session
from softcheck.variants.declaration import Backend, Declaration
from softcheck.variants.forms import names_in

ROWS_AT_ONCE = {"interpreter": 2**10, "cuda": 2**26}
"""Rows of one call: about a second of one program per row under the interpreter, a few gigabytes in all on a GPU."""

_MOST_PARTS = 2**14
"""Parts of a domain on a GPU, where a part of 2^48 / 2^14 rows of three columns takes about a second."""


def rows_of_a_part(judged: Domain, backend: Backend) -> int:
    """Rows of one part: those of one call, and on a GPU more of a domain that would have too many parts."""
    rows = ROWS_AT_ONCE[backend]
    # Of whole calls, whose rows are made in blocks.
    return rows * max(1, -(-judged.first // (rows * _MOST_PARTS))) if backend == "cuda" else rows


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The measurement of one part of a domain, by the part's number."""

    number: int
    measurement: Measurement


class Parts:
    """The finished parts of a run, each on the disk once it is added."""

    def __init__(self, path: Path, header: RunHeader, judged: Domain, rows_at_once: int, *, resume: bool) -> None:
        """Opens the journal.

        Raises UsageError where ``resume`` finds a journal of another run, or where the file can't be written.
        """
        self._journal: Journal[RunHeader, Part] = Journal(
            path, header, Part, resume=resume, refusal=refusal, is_synced=True
        )
        self.path = path
        self.rows_at_once = rows_at_once
        self.count = -(-judged.first // rows_at_once)
        self._finished = {part.number: part.measurement for part in self._journal.entries}

    def add(self, part: int, measurement: Measurement) -> None:
        """Records a part by its number. The part is on the disk when this returns."""
        self._finished[part] = measurement
        self._journal.add(Part(part, measurement))

    @property
    def measurements(self) -> list[Measurement]:
        """Measurements of the finished parts, in the order of the domain, so that sums do not depend on which part ended first."""
        return [self._finished[part] for part in sorted(self._finished)]

    @property
    def missing(self) -> list[int]:
        """The parts that are not finished, in order."""
        return [part for part in range(self.count) if part not in self._finished]

    @property
    def rows(self) -> int:
        """Rows of all finished parts."""
        return sum(measurement.rows for measurement in self._finished.values())

    def close(self) -> None:
        """Closes the file and leaves it in place."""
        self._journal.close()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The part of a domain that was not run because the variant was given up."""

    over: Over
    parts: int
    of: int
    """Parts of the whole domain."""
    rows: int
    first_row: int


@dataclass(frozen=True, slots=True)
class Ended:
    """An end before a part that could not be run or judged, through no fault of the variant."""

    parts: int
    """Parts judged before the end."""
    why: str


@dataclass(frozen=True, slots=True)
class Exhausted:
    """One variant judged on one domain."""

    variant: str
    declaration: Declaration
    domain: Domain
    measurement: Measurement
    seconds: float
    left_out: LeftOut | None = None
    ended: Ended | None = None
    refused: str | None = None
    """Why nothing was run, where the variant refuses rows of that many columns, or does not declare them."""
    at_speed: tuple[int, float] | None = None
    """Rows and seconds of this run's parts. The first part, in which a GPU compiles and loads, is left out if there are
    more. None if ``measurement`` and ``seconds`` tell the speed."""

    @property
    def rows_per_second(self) -> float:
        """Rows per second without the first part, if there are more; 0 if nothing was run."""
        rows, seconds = self.at_speed or (self.measurement.rows, self.seconds)
        return rows / seconds if seconds else 0.0

    @property
    def case_id(self) -> str:
        """The domain's name, in the form of a case's id."""
        return f"exhaustive/{self.domain.kind}-of-{self.domain.columns}/{self.domain.dtype}"


def exhaust(
    session: Session,
    variant: str,
    declaration: Declaration,
    domain: Domain,
    parts: Parts,
    *,
    progress: Callable[[int, int], None],
) -> Exhausted:
    """Judges a variant on a domain. Parts already in the journal are not run again.

    ``progress`` is called with rows done and rows in all. Raises SoftcheckError if a part can't be run or judged; the
    parts before it are in the journal.
    """
    begun = time.monotonic()
    for measurement in parts.measurements:
        session.patience.count(variant, domain.dtype, measurement.violations)
    before = done = parts.rows
    progress(done, domain.first)
    ended: list[tuple[int, float]] = []
    for part, found in _measured(session, variant, domain, parts.missing, parts.rows_at_once):
        if found is not None:
            parts.add(part, found)
            done += found.rows
            ended.append((done, time.monotonic()))
            progress(done, domain.first)
    left = parts.missing
    over = session.patience.over(variant, domain.dtype)
    left_out = (
        LeftOut(
            over,
            parts=len(left),
            of=parts.count,
            rows=domain.first - parts.rows,
            first_row=left[0] * parts.rows_at_once,
        )
        if left and over is not None
        else None
    )
    merged = merge(parts.measurements)
    if len(ended) < 2:
        ended.insert(0, (before, begun))
    at_speed = (ended[-1][0] - ended[0][0], ended[-1][1] - ended[0][1])
    return Exhausted(
        variant, declaration, domain, merged, time.monotonic() - begun, left_out=left_out, at_speed=at_speed
    )


def exhaust_within(
    session: Session, variant: str, declaration: Declaration, domain: Domain, seconds: float
) -> Exhausted:
    """Judges a variant on a domain from its beginning, until ``seconds`` have passed.

    The rest is left out of the result's domain. The run ends early after a part that gave no output. A part for which
    the device has no room, or for which the variant ran out of memory, is first tried in halves. A part that can't be
    run or judged also ends the run, and the result says so (``ended``). Raises SoftcheckError if that is the first
    part.
    """
    begun = time.monotonic()
    parts: list[Measurement] = []
    ended: Ended | None = None
    most = _most_at_once(session)
    start, size = 0, min(_FIRST_PART, most)
    while start < domain.first and (not parts or time.monotonic() - begun < seconds):
        part_begun = time.monotonic()
        try:
            part = session.run_domain(variant, domain, start, min(size, domain.first - start))
        except SoftcheckError as error:
            if size > _LEAST_PART and isinstance(error, TooLittleMemoryError):
                size = most = size // 2
                continue
            if not parts:
                raise
            ended = Ended(len(parts), str(error))
            break
        if size > _LEAST_PART and any(v.kind is FindingKind.OUT_OF_MEMORY for v in part.violations):
            size = most = size // 2
            continue
        parts.append(part)
        start += part.rows
        if any(violation.row is None for violation in part.violations):
            break
        if time.monotonic() - part_begun < _SHORT:
            size = min(2 * size, most)
    judged = msgspec.structs.replace(domain, first=start)
    return Exhausted(variant, declaration, judged, merge(parts), time.monotonic() - begun, ended=ended)


_FIRST_PART = 2**22
"""Rows of the first part, small so that a slow judge ends near the limit; parts double while they are short."""
_LEAST_PART = 2**16
"""Rows for which every device must have memory."""
_SHORT = 1.0
"""Seconds below which a part is short."""
_MUCH_MEMORY = 64 * 10**9
"""Bytes of a GPU that holds two parts of four times the rows, some 10 GB each, beside all else."""


def _most_at_once(session: Session) -> int:
    """Rows of one call that the device has memory for."""
    times = 4 if (session.ready.memory_bytes or 0) > _MUCH_MEMORY else 1
    return times * ROWS_AT_ONCE[session.ready.backend]


def _measured(
    session: Session, variant: str, domain: Domain, todo: list[int], rows: int
) -> Iterator[tuple[int, Measurement | None]]:
    """Yields each part's number and measurement as it is measured.

    The measurement is None if the part was left out because the variant was given up.
    """
    on_gpu = session.ready.backend == "cuda"

    def run(part: int) -> Measurement | None:
        if session.patience.over(variant, domain.dtype) is not None:
            return None
        start = part * rows
        count = min(rows, domain.first - start)
        if not on_gpu:
            return session.run_domain(variant, domain, start, count)
        with session.on_one_device() as own:
            most = _most_at_once(session)
            while True:
                try:
                    return own.run_domain(variant, domain, start, count, at_once=most)
                except TooLittleMemoryError:
                    if most <= _LEAST_PART:
                        raise
                    most //= 2

    # One process keeps a GPU busy; a second would only halve the memory.
    pool = ThreadPoolExecutor(session.places if on_gpu else session.jobs)
    try:
        # The other parts wait for the first, after which a variant that ends every process is given up.
        for group in (todo[:MOST_DEATHS], todo[MOST_DEATHS:]):
            begun = {pool.submit(run, part): part for part in group}
            for future in as_completed(begun):
                yield begun[future], future.result()
    finally:
        # Ctrl-C must not wait for parts that no one will read.
        pool.shutdown(wait=False, cancel_futures=True)


_SECONDS = 120.0
"""Seconds per variant and dtype that only what hangs, or is very slow, uses up."""

AT_ONCE = 2
"""Domains judged at once on each device, so that while one computes on the host the other has the GPU."""


def wanted(declaration: Declaration, dtypes: Sequence[str], effort: Effort = "normal") -> list[Domain]:
    """The pairs of each 16-bit dtype that a variant declares, if it declares rows of two columns: all of them for ``thorough``, else one in 16.

    There are none where the numpy judge would take hours, where an answer has a hundred parts, and where each row is a call of its own.
    """
    computed = declaration.computed
    is_of_rows = computed.matrix is not None or "x1" in names_in(declaration.call)
    if not computed.is_judged_on_device or computed.parts is not None or is_of_rows:
        return []
    return [
        domain(dtype, 2, "rows" if effort == "thorough" else "spread")
        for dtype in dtypes
        if FORMATS[dtype].width == 16 and dtype in declaration.dtypes and (declaration.column_limit(dtype) or 2) >= 2
    ]


def pairs_job(
    session: Session, variant: str, declaration: Declaration, pairs: Domain, place: int = 0
) -> Job[Exhausted]:
    """Returns a job that judges pairs on the device at a place; none of a variant that was given up.

    What could not be judged to its end raises after the result up to there.
    """
    name = f"{variant}, {pairs.describe()}"

    def work(emit: Callable[[Exhausted], None]) -> None:
        if session.patience.over(variant, pairs.dtype) is not None:
            return
        try:
            found = exhaust_within(session.at(place), variant, declaration, pairs, _SECONDS)
        except SoftcheckError as error:
            raise SoftcheckError(f"{name}: {error}") from None
        emit(found)
        if found.ended is not None and not session.closed:
            parts = found.ended.parts
            judged = f"{parts} part{'' if parts == 1 else 's'}, {found.domain.first:,} of {found.domain.total:,} rows"
            raise SoftcheckError(f"{name}: ended after {judged}: {found.ended.why}")

    return Job(name, work)
