"""Counts of broken promises over a case's blocks, with the worst witness of each kind, the elements around it, and the row where it is short."""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracles.formats import Bits, bits_hex
from softcheck.contract import FindingKind, Surroundings, Violation
from softcheck.facts import Facts
from softcheck.judge.measurement import Extreme
from softcheck.operations import rules
from softcheck.operations.block import Block
from softcheck.operations.rules import ElementRule, RowRule, Rule

SHOWN = 9
"""Elements shown of a row: a witness and eight around it."""
WIDEST_ROW = 64
"""Columns of the widest row that is kept whole."""

_MORE_DIGITS = 4


class Tally:
    """Violations of an operation's rules, by kind."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._count: dict[FindingKind, int] = {}
        self._worst: dict[FindingKind, tuple[float, Violation]] = {}

    def add(self, block: Block) -> None:
        """Counts everything that a block breaks."""
        for rule in self._rules:
            broken = rule.broken(block)
            count = int(np.count_nonzero(broken))
            if count == 0:
                continue
            self._count[rule.kind] = self._count.get(rule.kind, 0) + count
            ranking = (
                broken.astype(np.float64) if rule.badness is None else np.where(broken, rule.badness(block), -np.inf)
            )
            place = tuple(int(i) for i in np.unravel_index(int(np.argmax(ranking)), broken.shape))
            value = float(ranking[place])
            if rule.kind not in self._worst or value > self._worst[rule.kind][0]:
                self._worst[rule.kind] = value, _violation(rule, block, place, value)

    def violations(self) -> tuple[Violation, ...]:
        """Returns one violation per kind, in the order of the contract."""
        return tuple(
            msgspec.structs.replace(self._worst[k][1], count=self._count[k]) for k in FindingKind if k in self._worst
        )


def _violation(rule: Rule, block: Block, place: tuple[int, ...], value: float) -> Violation:
    row = place[0]
    if isinstance(rule, RowRule):
        number = block.row_of(row)
        column = int(np.argmax(block.shares[row]))
        message = f"{rules.row_place(block, row)}: {rule.describe(block, row)}"
        off, allowed = float(block.sum_deviations[row]), float(block.bounds.sums[row])
        facts = Facts(sum_off=off, sum_allowed=allowed, query=_query(block, row))
        return Violation(rule.kind, message, row=number, share=value, around=around(block, row, column), facts=facts)
    column = place[1]
    witness = extreme(value, block, row, column)
    return Violation(
        rule.kind,
        f"{rules.place(block, row, column)}: {rule.describe(block, row, column)}",
        row=witness.row,
        column=witness.column,
        input_bits=witness.input_bits,
        output_bits=witness.output_bits,
        share=value if rule.has_share else None,
        around=around(block, row, column),
        facts=_facts(rule, block, row, column),
    )


def _facts(rule: ElementRule, block: Block, row: int, column: int) -> Facts:
    """The numbers of an element."""
    has_bound = rule.has_share
    return Facts(
        output=float(block.output[row, column]),
        expected=float(block.answer[row, column]),
        ulps=float(block.errors[row, column]) if block.specials.comparable[row, column] else None,
        bound=float(np.broadcast_to(block.bounds.elements, block.errors.shape)[row, column]) if has_bound else None,
        reason=rules.reason(block, row, column),
        query=_query(block, row),
    )


def _query(block: Block, row: int) -> int | None:
    return None if block.parts == 1 and block.operation.parts is None else row % block.parts


def extreme(value: float, block: Block, row: int, column: int) -> Extreme:
    """A value with the element of the block that shows it."""
    return Extreme(
        value,
        block.row_of(row),
        block.column_of(row, column),
        "" if not block.operation.answers_elements else bits_hex(int(block.input_bits[row, column]), block.fmt),
        bits_hex(int(block.output_bits[row, column]), block.fmt),
    )


def worst(block: Block, values: NDArray[np.float64]) -> Extreme | None:
    """The largest value of the block with its element; None if there is none. Negative values and NaN don't count."""
    if values.size == 0:
        return None
    row, column = (int(i) for i in np.unravel_index(int(np.nanargmax(values)), values.shape))
    value = float(values[row, column])
    return extreme(value, block, row, column) if value >= 0 else None


def around(block: Block, row: int, column: int) -> Surroundings:
    """The elements of a block's row around a column, as many on both sides as the row has; or the row's one answer."""
    columns = block.errors.shape[1]
    first = max(0, min(column - SHOWN // 2, columns - SHOWN))
    shown = slice(first, min(first + SHOWN, columns))
    bounds = np.broadcast_to(block.bounds.elements, block.errors.shape)[row, shown]
    allowed = np.where(block.specials.bounded[row, shown], bounds, np.nan)
    digits, decimal = block.fmt.decimal_digits + _MORE_DIGITS, block.reference.decimal
    return Surroundings(
        first_column=block.column_of(row, first),
        inputs="" if not block.operation.answers_elements else _hexadecimal(block.input_bits[row, shown]),
        outputs=_hexadecimal(block.output_bits[row, shown]),
        exact=" ".join(
            # The everyday oracle does not say that an element of a masked row is exact.
            "0" if block.specials.masked[row, place] and block.answer[row, place] == 0 else decimal(row, place, digits)
            for place in range(shown.start, shown.stop)
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
