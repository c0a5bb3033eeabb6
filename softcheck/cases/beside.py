"""Operands, as text or files, and parameters that a user names beside a matrix, as words ``NAME=VALUE``."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Bits, Format, encode
from softcheck.cases.bit_rows import format_rows, parse_rows
from softcheck.cases.importing import read_array
from softcheck.cases.operands import Operands
from softcheck.errors import UsageError, near_matches

_MATRICES = ("grad", "y", "behind", "bias")


class Beside(NamedTuple):
    """A case's matrix, in which what a mask hides is -inf, and what stands beside it."""

    bits: Bits
    operands: Operands | None


def beside(bits: Bits, fmt: Format, words: Sequence[str], parameters: Collection[str]) -> Beside:
    """Reads words such as ``target=0 3 1``, ``grad=FILE.npy``, ``mask=0 1 0; 1 0 0`` and ``scale=0.125``.

    ``bits`` is the matrix, [rows, columns]: with the values that a mask hides, and the sum with a bias where one is named.
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
            numbers[name] = _number(name, value)
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
    return Beside(bits, Operands(**found, parameters=numbers) if found or numbers else None)


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"{name} is {value!r}; expected a number") from None


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
        found = parse_rows(tuple(row.strip() for row in value.strip().strip(";").split(";")), shape[1], fmt)
    if found.shape != shape:
        raise UsageError(f"{name} has shape {found.shape}; expected {shape} as the matrix has")
    return found
