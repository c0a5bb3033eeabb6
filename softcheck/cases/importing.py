"""Cases from arrays: bit patterns in memory or as text, ``.npy`` files and ``.safetensors`` files, none of them trusted."""

import math
import re
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.formats import BFLOAT16, FORMATS, Bits, Format, encode
from softcheck.cases.bit_rows import format_rows, parse_rows
from softcheck.cases.case import Case, check_fields, check_layout
from softcheck.cases.dtypes import known_dtype
from softcheck.cases.operands import Operands
from softcheck.errors import UsageError, near_matches

_MATRICES = ("grad", "y", "behind", "bias")

MAX_SAVED_ELEMENTS = 1 << 22
"""A case is stored as text, one line; larger inputs belong into recipes."""


def case_from_bits(bits: Bits, dtype: str, *, provenance: str, family: str = "saved", **origin: Any) -> Case:
    """A case that holds the given bit patterns, an unsigned array of shape [rows, columns] or [columns].

    ``origin`` are further arguments of ``Case.of``. Raises UsageError for an unknown dtype, for an array of another width
    or shape, and for one of more than ``MAX_SAVED_ELEMENTS`` elements.
    """
    fmt = _format(dtype)
    matrix = _matrix(bits, "the array of bits")
    if matrix.dtype.newbyteorder("=") != fmt.storage:
        raise UsageError(
            f"bits of {dtype} are an array of {fmt.storage}, got {matrix.dtype}; pass patterns, not values"
        )
    case = Case.of(matrix, fmt, family=family, provenance=provenance, **origin)
    check_fields(case)
    check_layout(matrix, case)
    return case


def case_from_hex(text: str, dtype: str | None, *, family: str = "saved") -> Case:
    """A case of bit patterns in hexadecimal, rows parted by semicolons; raises UsageError without a dtype or for other patterns."""
    if dtype is None:
        raise UsageError("--bits needs --dtype: 16 bits may be a float16 or a bfloat16")
    rows = _rows_in(text)
    bits = parse_rows(rows, len(rows[0].split()), _format(dtype))
    return case_from_bits(bits, dtype, family=family, provenance="bits")


def _rows_in(text: str) -> tuple[str, ...]:
    return tuple(row.strip() for row in text.strip().strip(";").split(";"))


def case_from_numbers(text: str, dtype: str, *, family: str = "saved") -> Case:
    """A case of decimal numbers, inf and nan, rounded to the dtype, rows parted by semicolons; raises UsageError for anything else."""
    rows = [row.replace(",", " ").split() for row in _rows_in(text)]
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise UsageError(f"row {i} holds {len(row)} numbers, expected {len(rows[0])} as in row 0")
    try:
        values = np.array([[float(word) for word in row] for row in rows], dtype=np.float64)
    except ValueError as error:
        raise UsageError(f"{error}; expected numbers such as 1, -2.5, -inf or nan") from None
    return case_from_bits(encode(values, _format(dtype)), dtype, family=family, provenance="numbers")


def read_array(path: str | Path, *, dtype: str | None = None, tensor: str | None = None) -> tuple[Bits, str]:
    """Bit patterns, shape [rows, columns], and dtype of an array in a ``.npy`` or ``.safetensors`` file.

    ``dtype`` is needed where the file can't say it: numpy has no bfloat16, so such arrays are saved as 16-bit patterns
    (uint16, or numpy's V2). Where the file does say it, another ``dtype`` is refused: values are never converted.
    ``tensor`` names one of several tensors of a ``.safetensors`` file. Raises UsageError for anything else: the file is
    mapped into memory without pickle, and its sizes are checked before it is read.
    """
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"{file} is not a regular file; expected a .npy or .safetensors file")
    try:
        if file.suffix == ".safetensors":
            bits, held = _read_safetensors(file, tensor)
        elif file.suffix != ".npy":
            raise UsageError(f"{file} has the ending {file.suffix!r}; expected .npy or .safetensors")
        elif tensor is not None:
            raise UsageError(f"a .npy file holds one array without a name; leave the tensor name {tensor!r} out")
        else:
            bits, held = _read_npy(file, None if dtype is None else _format(dtype))
    except OSError as error:
        raise UsageError(f"can't read {file}: {error.strerror}; check its permissions") from None
    if dtype is not None and held != dtype:
        raise UsageError(f"{file} holds {held}, not {dtype}; leave the dtype out, or convert the file on purpose first")
    return _matrix(bits, str(file)), held


def _read_safetensors(file: Path, tensor: str | None) -> tuple[Bits, str]:
    # numpy knows the name bfloat16, which safetensors asks it for, once ml_dtypes is imported.
    import ml_dtypes  # noqa: F401
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(file), framework="numpy") as held:
            name = _choose(file, sorted(held.keys()), tensor)
            part = held.get_slice(name)
            if part.get_dtype() not in _SAFETENSORS:
                raise UsageError(
                    f"{file}: tensor {name!r} is {part.get_dtype()}; expected one of {', '.join(_SAFETENSORS)}"
                )
            dtype = _SAFETENSORS[part.get_dtype()]
            _check_shape(tuple(part.get_shape()), f"{file}: tensor {name!r}")
            return held.get_tensor(name).view(FORMATS[dtype].storage), dtype
    except (SafetensorError, ValueError, OverflowError) as error:
        raise UsageError(f"{file} is not a safetensors file that can be read: {error}") from None


_SAFETENSORS = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}


def _choose(file: Path, names: list[str], name: str | None) -> str:
    if name is None and len(names) == 1:
        return names[0]
    if name is None:
        raise UsageError(f"{file} holds {len(names)} tensors; name one of: {', '.join(names) or 'none'}")
    if name not in names:
        raise UsageError(f"{file} holds no tensor {name!r}; {near_matches(name, names)}")
    return name


def _read_npy(file: Path, fmt: Format | None) -> tuple[Bits, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of headers written by Python 2, which it reads all the same
            # numpy.load calls this function for such a file, but would also try archives and pickles first.
            stored = np.lib.format.open_memmap(file, mode="r")
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - the header is a Python literal: parsing a damaged one can end in any exception
        raise UsageError(f"{file} is not a .npy file that can be read, or is damaged: {error}") from None
    found = _npy_format(file, stored.dtype, fmt)
    _check_shape(stored.shape, str(file))
    surplus = file.stat().st_size - stored.offset - stored.nbytes
    if surplus:
        raise UsageError(f"{file}: {surplus} bytes follow the array of shape {stored.shape}; the file is damaged")
    storage = found.storage.newbyteorder(">" if stored.dtype.byteorder == ">" else "<")
    return np.ascontiguousarray(stored).view(storage).astype(found.storage), found.name


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
    _check_shape(array.shape, what)
    return array.reshape(1, -1) if array.ndim == 1 else array


def _check_shape(shape: tuple[int, ...], what: str) -> None:
    if len(shape) not in (1, 2):
        raise UsageError(f"{what} has shape {shape}; expected [rows, columns] or [columns]")
    if math.prod(shape) > MAX_SAVED_ELEMENTS:
        raise UsageError(
            f"{what} holds {math.prod(shape):,} elements, more than the {MAX_SAVED_ELEMENTS:,} that a case may store; "
            "keep the rows that fail"
        )


def _format(dtype: str) -> Format:
    return FORMATS[known_dtype(dtype)]


def beside(bits: Bits, fmt: Format, words: Sequence[str], parameters: Collection[str]) -> tuple[Bits, Operands | None]:
    """Returns a case's matrix, in which what a mask hides is -inf, and the operands and parameters that a user names beside it.

    The ``words`` are such as ``target=0 3 1``, ``grad=FILE.npy``, ``mask=0 1 0; 1 0 0`` and ``scale=0.125``. ``bits`` is the matrix, [rows, columns]: with the values that a mask hides, and the sum with a bias where one is named.
    Targets are columns, one for each row; a mask is 1 where it hides; other operands are patterns in hexadecimal, or a file as
    ``read_array`` takes it. Raises UsageError for anything else.
    """
    found: dict[str, Any] = {}
    numbers: dict[str, float] = {}
    hidden: NDArray[np.bool_] | None = None
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in (known := ("target", "mask", *_MATRICES, *parameters)):
            hint = near_matches(name, list(known)) if equals else "write NAME=VALUE, as in target=3"
            raise UsageError(f"{word!r} names nothing that stands beside a matrix; {hint}")
        if name in parameters:
            try:
                numbers[name] = float(value)
            except ValueError:
                raise UsageError(f"{name} is {value!r}; expected a number") from None
        elif name == "target":
            found[name] = tuple(int(target) for target in _integers(name, value, (len(bits),)))
        elif name == "mask":
            hidden = _integers(name, value, bits.shape) != 0
        else:
            found[name] = format_rows(_patterns(name, value, bits.shape, fmt), fmt)
    if hidden is not None:
        if "behind" in found:
            raise UsageError("mask and behind are named; a mask says that the matrix holds what is behind it")
        found["behind"] = format_rows(bits, fmt)
        bits = np.where(hidden, encode(np.array([-np.inf]), fmt)[0], bits).astype(fmt.storage)
    return bits, Operands(**found, parameters=numbers) if found or numbers else None


def _integers(name: str, value: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    try:
        found = (
            np.load(value, allow_pickle=False)
            if value.endswith(".npy")
            else np.array([int(word) for word in re.split(r"[\s,;]+", value.strip(" ;"))])
        )
    except (OSError, ValueError) as error:
        raise UsageError(f"{name}={value}: {error}; expected integers, or a .npy file of them") from None
    if found.dtype.kind not in "biu" or found.size != np.prod(shape):
        raise UsageError(f"{name} holds {found.dtype} of shape {found.shape}; expected integers of shape {shape}")
    return found.astype(np.int64).reshape(shape)


def _patterns(name: str, value: str, shape: tuple[int, ...], fmt: Format) -> Bits:
    if Path(value).suffix in (".npy", ".safetensors"):
        found, _ = read_array(value, dtype=fmt.name)
    else:
        found = parse_rows(_rows_in(value), shape[1], fmt)
    if found.shape != shape:
        raise UsageError(f"{name} has shape {found.shape}; expected {shape} as the matrix has")
    return found
