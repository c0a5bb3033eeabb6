"""Matrices of bit patterns as text: one line for each row, in hexadecimal."""

import numpy as np

from oracles.formats import Bits, Format
from softcheck.errors import UsageError


def parse_rows(rows: tuple[str, ...], columns: int, fmt: Format) -> Bits:
    """Bit patterns from one string per row, each element in fixed-width hexadecimal, separated by spaces."""
    parsed = np.zeros((len(rows), columns), dtype=fmt.storage)
    for i, text in enumerate(rows):
        words = text.split()
        if len(words) != columns:
            raise UsageError(f"row {i} holds {len(words)} elements, expected {columns} as the case's shape says")
        for word in words:
            if len(word) != fmt.hex_digits:
                raise UsageError(
                    f"row {i}: {word!r} is not a {fmt.name} pattern of {fmt.hex_digits} hexadecimal digits"
                )
        try:
            parsed[i] = np.frombuffer(bytes.fromhex("".join(words)), dtype=fmt.storage.newbyteorder(">"))
        except ValueError as error:
            raise UsageError(f"row {i}: {error}; expected {fmt.hex_digits} hexadecimal digits per element") from None
    return parsed


def format_rows(bits: Bits, fmt: Format) -> tuple[str, ...]:
    """The inverse of ``parse_rows``."""
    big_endian = np.ascontiguousarray(bits, dtype=fmt.storage.newbyteorder(">"))
    return tuple(row.tobytes().hex(" ", fmt.itemsize) if row.size else "" for row in big_endian)
