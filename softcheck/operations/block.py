"""Judgement of a few rows at once: every figure of every element, before anything is summed up."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Bits, Format, Values, decode
from oracles.reference import Reference, no_nan
from softcheck.numbers.model import Model
from softcheck.operations import elements, ulp
from softcheck.operations.bounds import Bounds
from softcheck.operations.operation import Operation


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of one case, their output and their exact answer, all [rows, columns]. Figures are computed on first use.

    If each row has one answer, output and answer are [rows, 1], and so are the figures of elements. If a row's answer has parts
    (``Operation.parts``), each part is a row of the block, with logits of its own.
    """

    first_row: int
    input_bits: Bits
    """Bits of the matrix's rows."""
    output_bits: Bits
    fmt: Format
    """The output's format."""
    values: Values
    """Values of the matrix's rows."""
    logits: Values
    reference: Reference
    model: Model
    operation: Operation

    @classmethod
    def of(
        cls,
        first_row: int,
        input_bits: Bits,
        output_bits: Bits,
        fmt: Format,
        reference: Reference,
        model: Model,
        operation: Operation,
        values: Values,
        input_fmt: Format,
    ) -> "Block":
        """Makes a block of whole rows of the matrix, whose outputs and answers have the shape of ``Operation.output_shape``."""
        logits = values if operation.logits is None else operation.logits(values, input_fmt)
        if operation.parts is not None:
            shape = len(values) * operation.part_shape(values.shape[1])[0], -1
            output_bits, reference = output_bits.reshape(shape), reshaped(reference, shape)
        return cls(first_row, input_bits, output_bits, fmt, values, logits, reference, model, operation)

    @property
    def parts(self) -> int:
        """Rows of the block for each row of the matrix."""
        return self.operation.part_shape(self.values.shape[1])[0]

    def row_of(self, row: int) -> int:
        """Returns the row of the whole input to which a row of the block belongs."""
        return self.first_row + row // self.parts

    def column_of(self, row: int, column: int) -> int:
        """Returns the place of an element in its row's whole answer."""
        return row % self.parts * int(self.output_bits.shape[1]) + column

    @cached_property
    def output(self) -> Values:
        """The output's values."""
        return decode(self.output_bits, self.fmt)

    @cached_property
    def answer(self) -> Values:
        """The exact answer rounded to float64: for printing and for weights, never for errors."""
        reference = self.reference
        if not reference.exponent.any():
            return reference.high + reference.low if reference.low.any() else reference.high
        return reference.values

    @cached_property
    def exact(self) -> ulp.Scaled:
        """The exact answer in units of its ULP."""
        return ulp.scaled(self.reference, self.fmt, self.operation.least_scale(self.values, self.answer, self.fmt))

    @cached_property
    def specials(self) -> elements.Specials:
        """Classes of rows and elements."""
        per_row = not self.operation.answers_logits
        hides = self.operation.parts is not None and not per_row
        found = elements.specials(self.logits, self.output, self.reference.high, self.fmt, per_row=per_row, hides=hides)
        if self.operation.undefined is None:
            return found
        undefined = self.operation.undefined(self.values, self.fmt)
        return found.without(np.repeat(undefined, len(self.logits) // max(1, len(undefined))))

    @cached_property
    def errors(self) -> Values:
        """ULP errors; NaN where an element has none."""
        errors = ulp.scaled_error(self.output, self.exact)
        no_nan(f"an error of {self.operation.name}", np.where(self.specials.comparable, errors, 0.0))
        if self.operation.undefined is not None:
            errors[~self.specials.comparable] = np.nan
        return errors

    @cached_property
    def bounds(self) -> Bounds:
        """The errors that the arithmetic allows, on the side of the exact answer on which each output lies."""
        return self._allowed(self.model)

    def _allowed(self, constants: Model) -> Bounds:
        """The errors that an arithmetic allows, on the side of the exact answer on which each output lies."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            allowed = self.operation.bounds(self.values, self.exact, self.answer, constants).of(
                self.output, self.answer
            )
        no_nan(
            f"a bound of {self.operation.name}",
            np.where(self.specials.bounded, allowed.elements, 0.0),
            allowed.sums[self.summed_rows],
        )
        return allowed

    @cached_property
    def shares(self) -> Values:
        """Error divided by bound; -1 where there is no bound."""
        with np.errstate(over="ignore", invalid="ignore"):
            shares = self.errors / self.bounds.elements
        np.minimum(shares, ulp.LARGEST, out=shares)
        if not self.specials.bounded.all():
            shares[~self.specials.bounded] = -1.0
        return shares

    def largest_share(self, constants: Model) -> float | None:
        """Largest error over the bound of another arithmetic, of elements and of sums; None if nothing is bounded."""
        allowed = self._allowed(constants)
        bounded = self.specials.bounded
        with np.errstate(over="ignore", invalid="ignore"):
            shares = (self.errors / allowed.elements)[bounded]
            of_sums = (np.abs(self.sum_deviations) / allowed.sums)[self.summed_rows]
        largest = max(float(shares.max(initial=-1.0)), float(of_sums.max(initial=-1.0)))
        return None if largest < 0 else min(largest, ulp.LARGEST)

    @cached_property
    def exceeding(self) -> ulp.Flags:
        """Elements whose error exceeds their bound."""
        return self.shares > 1.0

    @cached_property
    def flushed(self) -> ulp.Flags:
        """Elements flushed to zero."""
        return ulp.flushed(self.output, self.exact) & self.specials.comparable

    @cached_property
    def summed_rows(self) -> NDArray[np.bool_]:
        """Rows with a sum to measure: ordinary, with columns, every output finite or infinite as due. Shape [rows]."""
        if self.logits.shape[1] == 0 or not self.operation.sums_rows:
            return np.zeros(len(self.logits), dtype=np.bool_)
        finite: NDArray[np.bool_] = np.logical_and.reduce(self.specials.comparable | self.specials.as_infinite, axis=1)
        return self.specials.ordinary & finite

    @cached_property
    def sum_deviations(self) -> Values:
        """Sum - 1 of each row's probabilities, NaN where a row has no sum to measure. Shape [rows]."""
        deviations = np.full(len(self.logits), np.nan)
        rows = self.summed_rows
        summed = self.operation.probabilities(self.output if rows.all() else self.output[rows])
        deviations[rows] = elements.sum_deviation(summed)
        return deviations

    @cached_property
    def sum_violations(self) -> NDArray[np.bool_]:
        """True for rows whose sum misses 1 by more than the arithmetic allows. Shape [rows]."""
        return np.abs(self.sum_deviations) > self.bounds.sums

    @cached_property
    def disorder(self) -> elements.Disorder | None:
        """Order within the rows that hold an element over its bound; None if there are no such rows.

        The excess of other rows is -inf.
        """
        rows = np.flatnonzero(self.exceeding.any(axis=1))
        if not len(rows):
            return None
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            absolute = self.bounds.elements[rows] * self.exact.ulp[rows]
        found = elements.disorder(self.logits[rows], self.output[rows], absolute, self.specials.bounded[rows])
        excess = np.full(self.logits.shape, -np.inf)
        rival = np.zeros(self.logits.shape, dtype=np.int64)
        excess[rows], rival[rows] = found.excess, found.rival
        return elements.Disorder(excess, rival)

    def doubtful_rows(self) -> NDArray[np.int64]:
        """Rows of the matrix whose verdict or ULP figures the reference's uncertainty could change."""
        sides = elements.sides(self.logits, self.exact)
        doubtful = elements.doubtful_verdicts(self.errors, self.bounds, self.exact, sides) & self.specials.bounded
        doubtful |= elements.doubtful_figures(self.errors, self.output, self.exact, sides)
        rows = doubtful.any(axis=1)
        rows |= elements.doubtful_sums(self.sum_deviations, self.bounds, self.exact, sides)
        return np.flatnonzero(rows.reshape(len(self.values), self.parts).any(axis=1))

    def with_reference(self, rows: NDArray[np.int64], better: Reference) -> "Block":
        """Returns the same rows with the answers of some of the matrix's rows replaced."""
        if self.parts > 1:
            rows = (rows[:, None] * self.parts + np.arange(self.parts)).ravel()
            better = reshaped(better, (len(rows), -1))
        high, low, exponent = self.reference.high.copy(), self.reference.low.copy(), self.reference.exponent.copy()
        relative = np.array(np.broadcast_to(self.reference.relative_error, high.shape))
        high[rows], low[rows], exponent[rows] = better.high, better.low, better.exponent
        relative[rows] = better.relative_error
        absolute = max(self.reference.absolute_error, better.absolute_error)
        settled = self.reference.settled and better.settled
        return replace(self, reference=Reference(high, low, exponent, relative, absolute, settled))


def reshaped(reference: Reference, shape: tuple[int, ...]) -> Reference:
    """Returns the reference in another shape, without a copy of its values."""
    return replace(
        reference,
        high=reference.high.reshape(shape),
        low=reference.low.reshape(shape),
        exponent=reference.exponent.reshape(shape),
        relative_error=np.broadcast_to(reference.relative_error, reference.high.shape).reshape(shape),
    )


def joined(parts: Sequence[Reference]) -> Reference:
    """Returns the references of successive rows as one."""
    arrays = zip(*((one.high, one.low, one.exponent, one.relative_error) for one in parts), strict=True)
    high, low, exponent, relative = (np.concatenate(each) for each in arrays)
    settled = all(one.settled for one in parts)
    return Reference(high, low, exponent, relative, max(one.absolute_error for one in parts), settled)


def rows_of(reference: Reference, rows: "slice | NDArray[np.int64]") -> Reference:
    """Returns the reference of some rows, of a slice without a copy."""
    high, low, exponent = reference.high[rows], reference.low[rows], reference.exponent[rows]
    return replace(reference, high=high, low=low, exponent=exponent, relative_error=reference.relative_error[rows])
