"""A file that grows by one record per measurement, so that a killed run loses none of them.

The format is MessagePack, since JSON has no infinity and a float64 ULP error may be infinite. The file is a magic
number, followed by records of a length, a CRC-32 (both 32 bits, big-endian) and the payload. The first payload is the
header. A record that a kill cut off is dropped when the file is opened again.
"""

import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import msgspec

from softcheck.errors import UsageError

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
