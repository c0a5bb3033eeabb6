"""Cases from arrays: bit patterns in memory, ``.npy`` files and ``.safetensors`` files, none of them trusted."""

import math
import tokenize
import warnings
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from oracles.formats import BFLOAT16, FORMATS, Bits, Format
from softcheck.cases.case import PACKED, Case, Layout, digest, format_rows
from softcheck.cases.check import check_fields, check_layout
from softcheck.cases.safetensors import read_tensor
from softcheck.errors import UsageError, near_matches

MAX_SAVED_ELEMENTS = 1 << 22
"""A case is stored as text, one line; larger inputs belong into recipes."""


def case_from_bits(
    bits: Bits,
    dtype: str,
    *,
    provenance: str,
    family: str = "saved",
    name: str | None = None,
    layout: Layout = PACKED,
    tags: tuple[str, ...] = (),
) -> Case:
    """A case that holds the given bit patterns, an unsigned array of shape [rows, columns] or [columns].

    The name defaults to the input's digest. Raises UsageError for an unknown dtype, for an array of another width or
    shape, and for one of more than ``MAX_SAVED_ELEMENTS`` elements.
    """
    fmt = _format(dtype)
    matrix = _matrix(bits, "the array of bits")
    if matrix.dtype.newbyteorder("=") != fmt.storage:
        raise UsageError(
            f"bits of {dtype} are an array of {fmt.storage}, got {matrix.dtype}; pass patterns, not values"
        )
    found = digest(matrix, fmt, layout)
    case = Case(
        id=f"{family}/{found if name is None else name}/{dtype}",
        dtype=dtype,
        shape=(matrix.shape[0], matrix.shape[1]),
        digest=found,
        rows=format_rows(matrix, fmt),
        layout=layout,
        tags=tags,
        provenance=provenance,
    )
    check_fields(case)
    check_layout(matrix, case)
    return case


def read_array(path: str | Path, *, dtype: str | None = None, tensor: str | None = None) -> tuple[Bits, str]:
    """Bit patterns, shape [rows, columns], and dtype of an array in a ``.npy`` or ``.safetensors`` file.

    ``dtype`` is needed where the file can't say it: numpy has no bfloat16, so such arrays are saved as 16-bit patterns
    (uint16, or numpy's V2). Where the file does say it, another ``dtype`` is refused: values are never converted.
    ``tensor`` names one of several tensors of a ``.safetensors`` file. Raises UsageError for anything else: the file is
    read without pickle, and sizes are checked against its length before memory is taken.
    """
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"{file} is not a regular file; expected a .npy or .safetensors file")
    try:
        with file.open("rb") as stream:
            found = _read(file, stream, dtype, tensor)
    except OSError as error:
        raise UsageError(f"can't read {file}: {error.strerror}; check its permissions") from None
    if dtype is not None and found.dtype != dtype:
        raise UsageError(
            f"{file} holds {found.dtype}, not {dtype}; leave the dtype out, or convert the file on purpose first"
        )
    return _matrix(found.bits, str(file)), found.dtype


class _Array(NamedTuple):
    bits: Bits
    dtype: str


def _read(file: Path, stream: IO[bytes], dtype: str | None, tensor: str | None) -> _Array:
    if file.suffix == ".safetensors":
        held = read_tensor(file, stream, tensor)
        fmt = FORMATS[held.dtype]
        return _Array(np.frombuffer(held.data, fmt.storage.newbyteorder("<")).reshape(held.shape), held.dtype)
    if file.suffix != ".npy":
        raise UsageError(f"{file} has the ending {file.suffix!r}; expected .npy or .safetensors")
    if tensor is not None:
        raise UsageError(f"a .npy file holds one array without a name; leave the tensor name {tensor!r} out")
    return _read_npy(file, stream, None if dtype is None else _format(dtype))


def _read_npy(file: Path, stream: IO[bytes], fmt: Format | None) -> _Array:
    shape, fortran_order, stored = _npy_header(file, stream)
    found = _npy_format(file, stored, fmt)
    count = math.prod(shape)
    present = file.stat().st_size - stream.tell()
    if min(shape, default=0) < 0 or count * found.itemsize != present:
        raise UsageError(
            f"{file}: shape {shape} of {stored} needs {count * found.itemsize} bytes, {present} follow the header; "
            "the file is damaged or cut off"
        )
    storage = found.storage.newbyteorder(">" if stored.byteorder == ">" else "<")
    flat = np.frombuffer(stream.read(present), dtype=storage).astype(found.storage)
    return _Array(flat.reshape(shape, order="F" if fortran_order else "C"), found.name)


def _npy_header(file: Path, stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of headers written by Python 2, which it reads all the same
            version = npy_format.read_magic(stream)
            if version == (1, 0):
                return npy_format.read_array_header_1_0(stream)
            if version == (2, 0):
                return npy_format.read_array_header_2_0(stream)
    # The header is a Python literal: parsing a damaged one can end in any of these.
    except (
        ValueError,
        TypeError,
        SyntaxError,
        tokenize.TokenError,
        RecursionError,
        MemoryError,
        OverflowError,
    ) as error:
        raise UsageError(f"{file} is not a .npy file that can be read: {error}") from None
    raise UsageError(f"{file}: .npy version {version} is not supported; save the array with numpy.save")


def _npy_format(file: Path, stored: np.dtype[np.generic], fmt: Format | None) -> Format:
    """The format of a stored dtype: a float dtype says it, patterns need to be told."""
    if stored.kind == "f" and stored.name in FORMATS:
        return FORMATS[stored.name]
    patterns = stored.kind == "u" or (stored.str == "|V2" and fmt == BFLOAT16)
    if patterns and stored.fields is None and fmt is not None and stored.itemsize == fmt.itemsize:
        return fmt
    wanted = "float16, float32 or float64, or unsigned bit patterns together with their dtype (bfloat16: uint16)"
    raise UsageError(f"{file} holds {stored}{'' if fmt is None else f', asked for as {fmt.name}'}; expected {wanted}")


def _matrix(array: NDArray[np.unsignedinteger], what: str) -> Bits:
    if array.ndim not in (1, 2):
        raise UsageError(f"{what} has shape {array.shape}; expected [rows, columns] or [columns]")
    matrix = array.reshape(1, -1) if array.ndim == 1 else array
    if matrix.size > MAX_SAVED_ELEMENTS:
        raise UsageError(
            f"{what} holds {matrix.size:,} elements, more than the {MAX_SAVED_ELEMENTS:,} that a case may store; "
            "keep the rows that fail"
        )
    return matrix


def _format(dtype: str) -> Format:
    if dtype not in FORMATS:
        raise UsageError(f"unknown dtype {dtype!r}; {near_matches(dtype, list(FORMATS))}")
    return FORMATS[dtype]
