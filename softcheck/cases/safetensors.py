"""A strict reader of one tensor of a safetensors file.

The format: eight bytes with the header's length, little-endian; a JSON header that gives each tensor's dtype, shape and
byte range; then the data, without holes. Source: https://github.com/huggingface/safetensors#format.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple, NoReturn

import msgspec

from softcheck.errors import UsageError, near_matches

MAX_HEADER_BYTES = 100_000_000
"""The format's own limit."""

_FLOATS = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
_ITEMSIZES = {"F16": 2, "BF16": 2, "F32": 4, "F64": 8}

_Size = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


class Tensor(NamedTuple):
    """One tensor as it is stored: little-endian, row by row."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dtype: str
    shape: tuple[_Size, ...]
    data_offsets: tuple[_Size, _Size]


class _DuplicateKeyError(ValueError):
    pass


def read_tensor(file: Path, stream: IO[bytes], name: str | None) -> Tensor:
    """The tensor of that name, or the only one. Raises UsageError for anything that breaks the format."""
    entries, data_start = _read_header(file, stream)
    data_bytes = file.stat().st_size - data_start
    _check_ranges(file, entries, data_bytes)
    chosen = _choose(file, entries, name)
    entry = entries[chosen]
    if entry.dtype not in _FLOATS:
        raise UsageError(f"{file}: tensor {chosen!r} is {entry.dtype}; expected one of {', '.join(_FLOATS)}")
    begin, end = entry.data_offsets
    wanted = math.prod(entry.shape) * _ITEMSIZES[entry.dtype]
    if end - begin != wanted:
        raise UsageError(
            f"{file}: tensor {chosen!r} of shape {list(entry.shape)} and {entry.dtype} needs {wanted} bytes, "
            f"its range [{begin}, {end}) holds {end - begin}"
        )
    stream.seek(data_start + begin)
    return Tensor(_FLOATS[entry.dtype], entry.shape, stream.read(wanted))


def _read_header(file: Path, stream: IO[bytes]) -> tuple[dict[str, _Entry], int]:
    size = file.stat().st_size
    length = int.from_bytes(stream.read(8), "little")
    if size < 8 or length > min(size - 8, MAX_HEADER_BYTES):
        raise UsageError(
            f"{file}: a header of {length} bytes in a file of {size}; expected a safetensors file, whose header fits "
            f"into it and into {MAX_HEADER_BYTES} bytes"
        )
    try:
        header = json.loads(stream.read(length), object_pairs_hook=_unique, parse_constant=_refuse_constant)
        if not isinstance(header, dict):
            raise UsageError(f"{file}: the header is a {type(header).__name__}; expected an object of tensors")
        header.pop("__metadata__", None)
        return msgspec.convert(header, dict[str, _Entry]), 8 + length
    except msgspec.ValidationError as error:
        raise UsageError(f"{file}: the safetensors header breaks the format: {error}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: the safetensors header is not JSON that can be read: {error}") from None


def _check_ranges(file: Path, entries: dict[str, _Entry], data_bytes: int) -> None:
    """The ranges must cover the data one after the other, without gap or overlap."""
    covered = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].data_offsets):
        begin, end = entry.data_offsets
        if begin != covered or end < begin:
            raise UsageError(
                f"{file}: tensor {name!r} has the byte range [{begin}, {end}); expected it to begin at {covered}, where "
                "the one before it ends"
            )
        covered = end
    if covered != data_bytes:
        raise UsageError(
            f"{file}: the tensors cover {covered} bytes, {data_bytes} follow the header; the file is damaged"
        )


def _choose(file: Path, entries: dict[str, _Entry], name: str | None) -> str:
    names = list(entries)
    if name is None and len(names) == 1:
        return names[0]
    if name is None:
        raise UsageError(f"{file} holds {len(names)} tensors; name one of: {', '.join(sorted(names)) or 'none'}")
    if name not in entries:
        raise UsageError(f"{file} holds no tensor {name!r}; {near_matches(name, names)}")
    return name


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise _DuplicateKeyError(f"a key occurs twice among {_few(key for key, _ in pairs)}")
    return keys


def _few(names: Iterator[str]) -> str:
    return ", ".join(repr(name) for _, name in zip(range(5), names, strict=False))


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
