"""The elements around a witness: their bits, exact values, errors and bounds, and the row where it is short."""

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

import numpy as np

from oracles.formats import Bits, Format
from softcheck.contract import Surroundings
from softcheck.operations.block import Block

SHOWN = 9
"""Elements shown of a row: a witness and eight around it."""
WIDEST_ROW = 64
"""Columns of the widest row that is kept whole."""

_MORE_DIGITS = 4


def around(block: Block, row: int, column: int) -> Surroundings:
    """The elements of a block's row around a column, as many on both sides as the row has; or the row's one answer."""
    columns = block.errors.shape[1]
    first = max(0, min(column - SHOWN // 2, columns - SHOWN))
    shown = slice(first, min(first + SHOWN, columns))
    bounds = np.broadcast_to(block.bounds.elements, block.errors.shape)[row, shown]
    allowed = np.where(block.specials.bounded[row, shown], bounds, np.nan)
    reference = block.reference
    parts = (part[row, shown].tolist() for part in (reference.high, reference.low, reference.exponent))
    masked = block.specials.masked[row, shown].tolist()
    return Surroundings(
        first_column=block.column_of(row, first),
        inputs="" if not block.operation.answers_elements else _hexadecimal(block.input_bits[row, shown]),
        outputs=_hexadecimal(block.output_bits[row, shown]),
        exact=" ".join(
            "<1e-300" if high == 0 and not is_masked else _decimal(high, low, exponent, block.fmt)
            for high, low, exponent, is_masked in zip(*parts, masked, strict=True)
        ),
        ulps=_figures(block.errors[row, shown].tolist()),
        bounds=_figures(allowed.tolist()),
        row=_hexadecimal(block.input_bits[row // block.parts]) if block.values.shape[1] <= WIDEST_ROW else None,
    )


def _hexadecimal(bits: Bits) -> str:
    """Bit patterns of shape [columns], parted by spaces, as ``corpus add --bits`` takes them."""
    return " ".join(f"{int(b):0{2 * bits.itemsize}x}" for b in bits)


def _figures(values: list[float]) -> str:
    return " ".join("-" if math.isnan(value) else f"{value:.6g}" for value in values)


def _decimal(high: float, low: float, exponent: int, fmt: Format) -> str:
    """(high + low) 2^exponent in decimal, rounded once, to four digits more than tell all values of a format apart."""
    if not math.isfinite(high):
        return str(high)
    exact = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
    value = exact.multiply(exact.add(Decimal(high), Decimal(low)), exact.power(Decimal(2), exponent))
    digits = fmt.decimal_digits + _MORE_DIGITS
    rounded = Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[]).plus(value).normalize()
    return f"{rounded:f}" if -7 <= rounded.adjusted() < digits else f"{rounded:e}"
