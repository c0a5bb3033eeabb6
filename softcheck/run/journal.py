"""A file that grows by one record per measurement, so that a killed run loses none of them.

The format is MessagePack, since JSON has no infinity and a float64 ULP error may be infinite. The file is a magic
number, followed by records of a length, a CRC-32 (both 32 bits, big-endian) and the payload. The first payload is the
header. A record that a kill cut off is dropped when the file is opened again. Digests of the
code that a run depends on tell whether its journal may be gone on with.
"""

import hashlib
import importlib.util
import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import msgspec

import oracles
import softcheck
from softcheck.errors import UsageError
from softcheck.run.protocol import Ready
from softcheck.variants._import import working_folder_on_path
from softcheck.variants.recognised import Recognised
from softcheck.variants.registry import resolve

_MAGIC = b"softcheck journal 1\n"
_FRAME = struct.Struct(">II")

Head = TypeVar("Head")
Entry = TypeVar("Entry")


class Journal(Generic[Head, Entry]):
    """An open journal: ``entries`` holds the entries found in the file, and ``add`` appends one.

    Threads may share it.
    """

    def __init__(
        self,
        path: Path,
        header: Head,
        entry: Any,
        *,
        resume: bool,
        refusal: Callable[[Head, Head], str | None],
        is_synced: bool = False,
    ) -> None:
        """Opens a new journal, or an existing one with ``resume``; ``entry`` is the type of the entries.

        ``refusal`` returns the reason why a journal whose header is the first argument can't be resumed under the
        second, or None. With ``is_synced``, ``add`` waits for the disk after each entry; without it entries survive a
        kill but not a power cut. Raises UsageError if the file exists and ``resume`` is False, if the file is no
        journal of this kind or belongs to another run, and if it can't be written.
        """
        self.path = path
        self.entries: list[Entry] = []
        self._is_synced = is_synced
        self._lock = threading.Lock()
        records = [msgspec.msgpack.encode(header)]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                if not resume:
                    raise UsageError(f"{path} exists: go on with --resume, or remove it to begin anew")
                found, *kept = _records(path)
                why = refusal(_decoded(found, type(header), path, 0), header)
                if why is not None:
                    raise UsageError(f"{path} can't be gone on with: {why}; leave --resume out to begin anew")
                self.entries = [_decoded(record, entry, path, number) for number, record in enumerate(kept, start=1)]
                records = [found, *kept]
            # The file is written anew without the record that a kill may have cut off, and then appended to.
            self._file = self._written(records)
        except OSError as error:
            raise UsageError(
                f"the journal {path} can't be written ({error.strerror}); name another --journal"
            ) from None

    def add(self, entry: Entry) -> None:
        """Records an entry. Once this returns, the entry outlives this process."""
        record = _framed(msgspec.msgpack.encode(entry))
        with self._lock:
            self._file.write(record)
            self._file.flush()
            if self._is_synced:
                os.fsync(self._file.fileno())

    def _written(self, records: Sequence[bytes]) -> BinaryIO:
        whole = self.path.with_name(f".{self.path.name}.tmp")
        with whole.open("wb") as file:
            file.write(_MAGIC + b"".join(map(_framed, records)))
            if self._is_synced:
                file.flush()
                os.fsync(file.fileno())
        whole.replace(self.path)
        return self.path.open("ab")

    def close(self) -> None:
        """Closes the file and leaves it in place."""
        with self._lock:
            self._file.close()


def read_header(path: Path, kind: type[Head]) -> Head:
    """A journal's header. Raises UsageError if the file can't be read or is no journal of that kind."""
    try:
        header: Head = _decoded(_records(path)[0], kind, path, 0)
    except OSError as error:
        raise UsageError(
            f"the journal {path} can't be read ({error.strerror}); name the file of a killed run"
        ) from None
    return header


def _framed(payload: bytes) -> bytes:
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def _records(path: Path) -> list[bytes]:
    """Payloads of the whole records. There is at least the header."""
    content = path.read_bytes()
    records = list(_split(content, path)) if content.startswith(_MAGIC) else []
    if not records:
        raise UsageError(f"{path} is no journal of softcheck; name the file of a killed run, or another --journal")
    return records


def _split(content: bytes, path: Path) -> Iterator[bytes]:
    at = len(_MAGIC)
    while at + _FRAME.size <= len(content):
        length, checksum = _FRAME.unpack_from(content, at)
        begin, end = at + _FRAME.size, at + _FRAME.size + length
        payload = content[begin:end]
        if end > len(content) or (zlib.crc32(payload) != checksum and end == len(content)):
            return
        if zlib.crc32(payload) != checksum:
            raise UsageError(f"{path} is damaged at byte {at}; remove it and begin anew")
        yield payload
        at = end


def _decoded(record: bytes, kind: Any, path: Path, number: int) -> Any:
    try:
        return msgspec.msgpack.decode(record, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}, record {number}: {error}; expected a journal of this command and version of softcheck"
        ) from None


class RunHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """First record of a journal of measurements."""

    softcheck: str
    ready: Ready
    asked: dict[str, Any]
    """Grounds of the run's figures: its options and a digest of its cases, or the domain that it judges."""
    sources: dict[str, str]
    """Digests of softcheck's code and of the variants'."""
    settings: dict[str, Any] = {}
    """Options as the user gave them, so that ``--resume`` alone repeats them."""
    fact: Recognised | None = None
    """The call as trials have shown it, where the run is of one variant: the run that goes on judges the same call."""


def refusal(found: RunHeader, now: RunHeader) -> str | None:
    """Returns the reason why a journal can't be resumed, or None. All figures of a report must come from one set-up."""
    for what, before, after in (
        ("softcheck's version", found.softcheck, now.softcheck),
        *_changes(msgspec.structs.asdict(found.ready), msgspec.structs.asdict(now.ready)),
        *_changes(found.asked, now.asked),
        ("the call", found.fact, now.fact),
    ):
        if before != after:
            return f"it was begun with {what} {_shown(before)}, and now it is {_shown(after)}"
    names = [name for name, digest in now.sources.items() if found.sources.get(name) != digest]
    return f"the source of {', '.join(names)} has changed since" if names else None


def _changes(found: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    return [(name.replace("_", " "), found.get(name), value) for name, value in now.items()]


def _shown(value: Any) -> str:
    value = value.in_words() if isinstance(value, Recognised) else value
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return (text if len(text) <= 100 else text[:99] + "…") or "none"


def fingerprints(variants: Iterable[str]) -> dict[str, str]:
    """Digests of softcheck's own code and of each variant's code that is not part of softcheck, by name."""
    found = {"softcheck": _of_contents(f for package in (softcheck, oracles) for f in _files(package.__path__[0]))}
    for name in variants:
        where = resolve(name)
        if where.kind == "file":
            # A variant's file may import the modules beside it.
            found[name] = _of_contents(sorted(Path(where.location).parent.glob("*.py")))
        elif where.kind != "builtin":
            found[name] = _of_module(where.location)
    return found


def _of_module(location: str) -> str:
    """A digest of file sizes and modification times, since a package may be large.

    Only the outermost package is located; nothing is imported.
    """
    with working_folder_on_path():
        specification = importlib.util.find_spec(location.partition(".")[0])
    if specification is None:
        return "missing"
    folders = specification.submodule_search_locations
    files = _files(folders[0]) if folders else [Path(specification.origin or "")]
    states = [(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files if f.is_file()]
    return hashlib.sha256(repr(states).encode()).hexdigest()


def _files(folder: str) -> list[Path]:
    return sorted(Path(folder).rglob("*.py"))


def _of_contents(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        # Not the folder, which may be another one on each machine.
        digest.update(f"{file.name} {len(content)}\n".encode(errors="surrogateescape"))
        digest.update(content)
    return digest.hexdigest()
