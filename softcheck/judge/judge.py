"""Comparison of an output with the exact answer: ULPs, sums, special values, error over bound."""

from dataclasses import dataclass, field

import msgspec
import numpy as np

from oracles.formats import Bits, Format, Values, decode
from oracles.reference import FullyMasked, Reference
from softcheck.calling import float_environment
from softcheck.errors import UsageError
from softcheck.judge.histogram import Histogram
from softcheck.judge.measurement import Extreme, Measurement
from softcheck.judge.merge import larger
from softcheck.judge.tally import Tally, worst
from softcheck.operations import bounds, ulp
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.block import Block, rows_of
from softcheck.operations.operation import Operation
from softcheck.operations.softmax import SOFTMAX

_BLOCK_ELEMENTS = 1 << 15
"""Elements judged at once: a few dozen float64 temporaries of that size stay in a processor's second-level cache."""

STANDARD = Arithmetic()


@float_environment.standard()
def reference(
    values: Values, fmt: Format, fully_masked: FullyMasked = "nan", operation: Operation = SOFTMAX
) -> Reference:
    """The everyday oracle's answer for outputs of a format: float64 for 16 and 32 bits, double-double for float64.

    ``values`` is [rows, columns], float64, exactly the inputs' values. Compute it once per case to judge many variants.
    """
    return operation.answer(values, fmt, fully_masked)


@float_environment.standard()
def judge(
    input_bits: Bits,
    output_bits: Bits,
    fmt: Format,
    *,
    fully_masked: FullyMasked = "nan",
    arithmetic: Arithmetic = STANDARD,
    reference: Reference | None = None,
    operation: Operation = SOFTMAX,
) -> Measurement:
    """Measures one output against the exact answer for its input and lists the broken promises about values.

    ``input_bits`` and ``output_bits`` are [rows, columns] bit patterns of the format. ``fully_masked`` is the answer
    for a row of -inf. ``arithmetic`` is the arithmetic whose errors are allowed; the default is the standard contract.
    ``reference`` is the result of the function ``reference`` for this input and convention, if the caller has it
    already.

    An element that is NaN or infinite on one side only is a violation: it has no ULP error, and its row has no sum.
    Rows that the reference's own uncertainty could decide are judged again with the Arb oracle, and count in
    ``rejudged_rows``. The function computes in the standard floating-point environment, whatever the calling thread's
    is. Temporaries take some 40 float64 per element of the widest row, or of 2^15 elements if rows are shorter.

    Raises UsageError if shapes or bit widths don't match.
    """
    _check(input_bits, output_bits, fmt, reference)
    rows, columns = input_bits.shape
    constants = bounds.model(arithmetic, fmt)
    standard = None if constants == bounds.model(STANDARD, fmt) else bounds.model(STANDARD, fmt)
    summary = _Summary(Tally(operation.rules))
    step = max(1, _BLOCK_ELEMENTS // max(1, columns))
    for first in range(0, rows if columns else 0, step):
        chosen = slice(first, min(first + step, rows))
        logits = decode(input_bits[chosen], fmt)
        answer = rows_of(reference, chosen) if reference is not None else operation.answer(logits, fmt, fully_masked)
        block = Block(first, input_bits[chosen], output_bits[chosen], fmt, logits, answer, constants, operation)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            doubtful = block.doubtful_rows()
            if len(doubtful):
                summary.rejudged_rows += len(doubtful)
                block = block.with_reference(doubtful, operation.prove(logits[doubtful], fully_masked))
            summary.add(block)
            if standard is not None:
                share = block.largest_share(standard)
                summary.max_standard_share = max(
                    (s for s in (summary.max_standard_share, share) if s is not None), default=None
                )
    measured = summary.measurement(rows, columns)
    return measured if standard is None else msgspec.structs.replace(measured, contract=arithmetic)


def _check(input_bits: Bits, output_bits: Bits, fmt: Format, given: Reference | None) -> None:
    for name, bits in (("input", input_bits), ("output", output_bits)):
        if bits.ndim != 2 or bits.dtype != fmt.storage:
            raise UsageError(
                f"{name} bits have shape {bits.shape} and dtype {bits.dtype}, expected [rows, columns] of {fmt.storage} for "
                f"{fmt.name}; pass the tensor's bit patterns"
            )
    if output_bits.shape != input_bits.shape:
        raise UsageError(
            f"the output has shape {output_bits.shape}, expected the input's {input_bits.shape}; report it as wrong_shape "
            "instead of judging it"
        )
    if given is not None and given.high.shape != input_bits.shape:
        raise UsageError(
            f"the reference has shape {given.high.shape}, expected the input's {input_bits.shape}; compute it from this input"
        )


@dataclass(slots=True)
class _Summary:
    """Figures over the blocks judged so far."""

    tally: Tally
    elements: int = 0
    max_ulp: Extreme | None = None
    ulp_sum: float = 0.0
    histogram: Histogram = field(default_factory=Histogram)
    max_ulp_ftz: float | None = None
    max_bound_share: Extreme | None = None
    max_standard_share: float | None = None
    flushed: int = 0
    max_sum_deviation: float | None = None
    sum_violations: int = 0
    special_rows: int = 0
    fully_masked_rows: int = 0
    special_mismatches: int = 0
    rejudged_rows: int = 0

    def add(self, block: Block) -> None:
        """Adds a block's figures and violations."""
        comparable, ordinary = block.specials.comparable, block.specials.ordinary
        errors = block.errors if comparable.all() else block.errors[comparable]
        if errors.size:
            self.elements += errors.size
            self.ulp_sum = min(self.ulp_sum + float(errors.sum()), ulp.LARGEST)
            self.histogram.add(errors)
            self.max_ulp = larger(self.max_ulp, worst(block, block.errors))
            as_if_flushing = ulp.error_as_if_flushing(block.errors, block.output, block.exact)
            self.max_ulp_ftz = max(self.max_ulp_ftz or 0.0, float(np.nanmax(as_if_flushing)))
            self.max_bound_share = larger(self.max_bound_share, worst(block, block.shares))
            self.flushed += int(np.count_nonzero(block.flushed))
        if block.summed_rows.any():
            deviation = float(np.nanmax(np.abs(block.sum_deviations)))
            self.max_sum_deviation = max(self.max_sum_deviation or 0.0, deviation)
            self.sum_violations += int(np.count_nonzero(block.sum_violations))
        self.special_rows += int(np.count_nonzero(~ordinary))
        self.fully_masked_rows += int(np.count_nonzero(np.isneginf(block.logits).all(axis=1)))
        self.special_mismatches += int(np.count_nonzero(block.specials.mismatched))
        self.tally.add(block)

    def measurement(self, rows: int, columns: int) -> Measurement:
        """The finished measurement."""
        return Measurement(
            rows=rows,
            columns=columns,
            elements=self.elements,
            max_ulp=self.max_ulp,
            ulp_sum=self.ulp_sum,
            histogram=self.histogram.counts(),
            max_ulp_ftz=self.max_ulp_ftz,
            max_bound_share=self.max_bound_share,
            max_standard_share=self.max_standard_share,
            flushed=self.flushed,
            max_sum_deviation=self.max_sum_deviation,
            sum_violations=self.sum_violations,
            special_rows=self.special_rows,
            fully_masked_rows=self.fully_masked_rows,
            special_mismatches=self.special_mismatches,
            rejudged_rows=self.rejudged_rows,
            violations=self.tally.violations(),
        )
