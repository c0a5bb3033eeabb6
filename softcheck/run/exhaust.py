"""Judging everything there is: a domain in parts, each journalled as it is measured, so that a killed run goes on."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from softcheck.cases.exhaustive import Domain, chunks
from softcheck.errors import UsageError
from softcheck.judge.measurement import Measurement
from softcheck.judge.merge import merge
from softcheck.run.session import Session
from softcheck.variants.declaration import Declaration

ROWS_AT_ONCE = {"interpreter": 2**10, "cuda": 2**26}
"""Rows of one part: under the interpreter about a second of one program per row; on a GPU a few gigabytes in all."""


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """First line of a journal: what its parts are parts of."""

    variant: str
    domain: Domain
    device: str
    torch: str
    triton: str
    rows_at_once: int


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One measured part."""

    start: int
    measurement: Measurement


class Journal:
    """A file of JSON Lines: a header, then each part as it is measured. A line cut off by a kill is dropped."""

    def __init__(self, path: Path, header: Header, *, resume: bool) -> None:
        """Opens the journal.

        Raises UsageError where ``resume`` finds a journal of another run, or where the file can't be written.
        """
        self.path = path
        self.parts: dict[int, Measurement] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                if not resume:
                    raise UsageError(f"{path} exists: go on with --resume, or remove it to begin anew")
                self._read(header)
            # Written anew without the torn line that a kill may have left, then appended to.
            lines = [msgspec.json.encode(header)]
            lines += [msgspec.json.encode(Part(start, m)) for start, m in sorted(self.parts.items())]
            whole = path.with_name(f".{path.name}.tmp")
            whole.write_bytes(b"".join(line + b"\n" for line in lines))
            whole.replace(path)
            self._file = path.open("ab")
        except OSError as error:
            raise UsageError(
                f"the journal {path} can't be written ({error.strerror}); name another --journal"
            ) from None

    def add(self, start: int, measurement: Measurement) -> None:
        """Records a part; on the disk when it returns."""
        self.parts[start] = measurement
        self._file.write(msgspec.json.encode(Part(start, measurement)) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file; it stays where it is."""
        self._file.close()

    def _read(self, header: Header) -> None:
        lines = self.path.read_bytes().split(b"\n")
        try:
            found = msgspec.json.decode(lines[0], type=Header)
        except msgspec.DecodeError as error:
            raise UsageError(
                f"{self.path} is no journal of softcheck exhaust: {error}; name another --journal"
            ) from None
        if found != header:
            raise UsageError(
                f"{self.path} belongs to another run ({found.variant}, {found.domain.describe()}, {found.device}, "
                f"torch {found.torch}, Triton {found.triton}); leave --resume out to begin anew"
            )
        decoder = msgspec.json.Decoder(Part)
        for number, line in enumerate(lines[1:], start=2):
            if not line:
                continue
            try:
                part = decoder.decode(line)
            except msgspec.DecodeError as error:
                if number == len(lines):
                    continue
                raise UsageError(f"{self.path}:{number}: {error}; remove the line to judge its part again") from None
            self.parts[part.start] = part.measurement


@dataclass(frozen=True, slots=True)
class Exhausted:
    """One variant judged on one domain."""

    variant: str
    declaration: Declaration
    domain: Domain
    measurement: Measurement
    seconds: float

    @property
    def case_id(self) -> str:
        """The domain's name, in the form of a case's id."""
        return f"exhaustive/{self.domain.kind}-of-{self.domain.columns}/{self.domain.dtype}"


def exhaust(
    session: Session, variant: str, domain: Domain, journal: Journal, *, progress: Callable[[int, int], None]
) -> Measurement:
    """The merged measurement of a variant over a domain, parts already in the journal not run again."""
    size = ROWS_AT_ONCE[session.ready.backend]
    todo = [chunk for chunk in chunks(domain, size) if chunk[0] not in journal.parts]
    done = sum(m.rows for m in journal.parts.values())
    progress(done, domain.first)
    for start, measurement in _measured(session, variant, domain, todo):
        journal.add(start, measurement)
        done += measurement.rows
        progress(done, domain.first)
    return merge(m for _, m in sorted(journal.parts.items()))


def exhaust_within(
    session: Session, variant: str, declaration: Declaration, domain: Domain, seconds: float
) -> Exhausted:
    """A variant judged on a domain from its beginning, for as long as the time lasts.

    What is left is left out of the result's domain. Ends early at a part that gave no output. Raises SoftcheckError where a
    part can't be run.
    """
    begun = time.monotonic()
    parts: list[Measurement] = []
    start, size = 0, _FIRST_PART
    while start < domain.first and (not parts or time.monotonic() - begun < seconds):
        part_begun = time.monotonic()
        parts.append(session.run_domain(variant, domain, start, min(size, domain.first - start)))
        start += parts[-1].rows
        if any(violation.row is None for violation in parts[-1].violations):
            break
        if time.monotonic() - part_begun < _SHORT:
            size = min(2 * size, ROWS_AT_ONCE[session.ready.backend])
    judged = msgspec.structs.replace(domain, first=start)
    return Exhausted(variant, declaration, judged, merge(parts), time.monotonic() - begun)


_FIRST_PART = 2**22
"""Rows of the first part, small so that a slow judge ends near the limit; parts double while they are short."""
_SHORT = 0.25
"""Seconds."""


def _measured(
    session: Session, variant: str, domain: Domain, todo: list[tuple[int, int]]
) -> Iterator[tuple[int, Measurement]]:
    # One GPU is kept busy by one process; a second would only halve the memory.
    pool = ThreadPoolExecutor(1 if session.ready.backend == "cuda" else session.jobs)
    try:
        measurements = pool.map(lambda chunk: session.run_domain(variant, domain, *chunk), todo)
        yield from zip((start for start, _ in todo), measurements, strict=True)
    finally:
        # Ctrl-C must not wait for parts that no one will read.
        pool.shutdown(wait=False, cancel_futures=True)
