"""Counts of broken promises over a case's blocks, with the worst witness of each kind."""

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracles.formats import FORMATS, Values, bits_hex
from softcheck.contract import FindingKind, Violation
from softcheck.judge.block import Block
from softcheck.judge.measurement import Extreme
from softcheck.judge.ulp import Flags

Describe = Callable[[Block, int, int], str]


class Tally:
    """Violations by kind."""

    def __init__(self) -> None:
        self._count: dict[FindingKind, int] = {}
        self._worst: dict[FindingKind, tuple[float, Violation]] = {}

    def add(self, block: Block) -> None:
        """Counts everything that a block breaks."""
        specials = block.specials
        self._elements(FindingKind.ULP_EXCEEDS_BOUND, block, block.exceeding, block.shares, _ulp)
        self._elements(FindingKind.NAN_MISMATCH, block, specials.nan_mismatch, None, _special)
        self._elements(FindingKind.INF_MISMATCH, block, specials.inf_mismatch, None, _special)
        self._elements(FindingKind.MASKED_NOT_ZERO, block, specials.masked_not_zero, np.abs(block.output), _masked)
        self._elements(FindingKind.OUT_OF_RANGE, block, *_out_of_range(block), _range)
        if block.disorder is not None:
            excess = block.disorder.excess
            self._elements(FindingKind.ORDER_VIOLATION, block, excess > 0, excess, _order)
        self._sums(block)

    def violations(self) -> tuple[Violation, ...]:
        """One violation per kind, in the order of the contract."""
        return tuple(_with_count(self._worst[k][1], self._count[k]) for k in FindingKind if k in self._worst)

    def _elements(
        self, kind: FindingKind, block: Block, broken: Flags, badness: Values | None, describe: Describe
    ) -> None:
        """Counts the broken elements and keeps the worst.

        With badness None, the first element is as good a witness as any.
        """
        count = int(np.count_nonzero(broken))
        if count == 0:
            return
        self._count[kind] = self._count.get(kind, 0) + count
        ranking = broken.astype(np.float64) if badness is None else np.where(broken, badness, -np.inf)
        row, column = (int(i) for i in np.unravel_index(int(np.argmax(ranking)), broken.shape))
        value = float(ranking[row, column])
        if kind not in self._worst or value > self._worst[kind][0]:
            witness = extreme(value, block, row, column)
            self._worst[kind] = (
                value,
                Violation(
                    kind,
                    f"{_place(block, row, column)}: {describe(block, row, column)}",
                    row=witness.row,
                    column=column,
                    input_bits=witness.input_bits,
                    output_bits=witness.output_bits,
                    share=value if kind is FindingKind.ULP_EXCEEDS_BOUND else None,
                ),
            )

    def _sums(self, block: Block) -> None:
        broken = block.sum_violations
        count = int(np.count_nonzero(broken))
        if count == 0:
            return
        kind = FindingKind.SUM_VIOLATION
        self._count[kind] = self._count.get(kind, 0) + count
        with np.errstate(over="ignore"):
            ranking = np.where(broken, np.abs(block.sum_deviations) / block.bounds.sums, -np.inf)
        row = int(np.argmax(ranking))
        if kind not in self._worst or ranking[row] > self._worst[kind][0]:
            deviation, allowed = float(block.sum_deviations[row]), float(block.bounds.sums[row])
            message = (
                f"row {block.first_row + row}: the outputs' sum misses 1 by {deviation:+.6g} ({deviation.hex()}), expected "
                f"at most {allowed:.6g} ({allowed.hex()}) for {block.logits.shape[1]} columns of {block.fmt.name}"
            )
            self._worst[kind] = (
                float(ranking[row]),
                Violation(kind, message, row=block.first_row + row, share=float(ranking[row])),
            )


def extreme(value: float, block: Block, row: int, column: int) -> Extreme:
    """A value with the element of the block that shows it."""
    return Extreme(
        value,
        block.first_row + row,
        column,
        bits_hex(int(block.input_bits[row, column]), block.fmt),
        bits_hex(int(block.output_bits[row, column]), block.fmt),
    )


def worst(block: Block, values: NDArray[np.float64]) -> Extreme | None:
    """The largest value of the block with its element; None if there is none. Negative values and NaN don't count."""
    if values.size == 0:
        return None
    row, column = (int(i) for i in np.unravel_index(int(np.nanargmax(values)), values.shape))
    value = float(values[row, column])
    return extreme(value, block, row, column) if value >= 0 else None


def _with_count(violation: Violation, count: int) -> Violation:
    return msgspec.structs.replace(violation, count=count)


def _out_of_range(block: Block) -> tuple[Flags, Values]:
    """Finite outputs below 0, or above 1 by more than the element's bound, and how far from [0, 1] they are.

    A correctly rounded result never exceeds 1, but an approximate division may give 1 + 2^-22 in float32 without
    breaking its own promise.
    """
    output = block.output
    with np.errstate(invalid="ignore"):
        outside = np.maximum(-output, output - 1.0)
        broken = (outside > 0) & block.specials.comparable
        above = broken & (output > 1.0) & block.specials.bounded
        if above.any():
            broken[above] = outside[above] > (block.bounds.elements * block.exact.ulp)[above]
    return broken, outside


def _place(block: Block, row: int, column: int) -> str:
    bits = bits_hex(int(block.input_bits[row, column]), block.fmt)
    return f"row {block.first_row + row}, column {column}, input {_number(float(block.logits[row, column]), bits)}"


def _number(value: float, bits: str | None = None) -> str:
    """A value in decimal and as a hexadecimal float, with its bits where it is of the judged format."""
    text = f"{value:.9g}" if bits is not None and len(bits) < FORMATS["float64"].hex_digits else f"{value:.17g}"
    # float.hex writes NaN and infinities as words, which the decimal already says.
    inside = [f"bits {bits}"] if bits is not None else []
    if np.isfinite(value):
        inside.append(value.hex())
    return f"{text} ({', '.join(inside)})" if inside else text


def _output(block: Block, row: int, column: int) -> str:
    bits = bits_hex(int(block.output_bits[row, column]), block.fmt)
    return f"output {_number(float(block.output[row, column]), bits)}"


def _expected(block: Block, row: int, column: int) -> str:
    return f"expected {_number(float(block.answer[row, column]))}"


def _ulp(block: Block, row: int, column: int) -> str:
    error, bound = float(block.errors[row, column]), float(block.bounds.elements[row, column])
    return f"{_output(block, row, column)}, {_expected(block, row, column)}: {error:.6g} ULP, bound {bound:.6g} ULP"


def _special(block: Block, row: int, column: int) -> str:
    logits = block.logits[row]
    if np.isnan(logits).any():
        reason = "the row holds a NaN"
    elif np.isposinf(logits).any():
        reason = "the row holds a +inf"
    elif np.isneginf(logits).all():
        reason = "every logit of the row is -inf"
    else:
        reason = "the row's answer is finite"
    return f"{_output(block, row, column)}, {_expected(block, row, column)}: {reason}"


def _masked(block: Block, row: int, column: int) -> str:
    return f"{_output(block, row, column)}, expected exactly 0 for a -inf logit"


def _range(block: Block, row: int, column: int) -> str:
    error = float(block.errors[row, column])
    return f"{_output(block, row, column)}, expected a value in [0, 1], here {_number(float(block.answer[row, column]))}: {error:.6g} ULP"


def _order(block: Block, row: int, column: int) -> str:
    found = block.disorder
    assert found is not None
    rival = int(found.rival[row, column])
    theirs = bits_hex(int(block.output_bits[row, rival]), block.fmt)
    return (
        f"{_output(block, row, column)} although column {rival} has the smaller logit "
        f"{_number(float(block.logits[row, rival]))} and the larger output "
        f"{_number(float(block.output[row, rival]), theirs)}, by {found.excess[row, column]:.6g} more than both bounds allow"
    )
