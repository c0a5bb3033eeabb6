"""Comparison of an output with the exact answer: ULPs, sums, special values, error over bound."""

import msgspec
import numpy as np

from oracles.formats import FLOAT32, Bits, Format, Values, decode, format_of
from oracles.reference import FullyMasked, Reference
from softcheck.calling import float_environment
from softcheck.errors import UsageError
from softcheck.judge.histogram import histogram, peaks
from softcheck.judge.measurement import Measurement, merge
from softcheck.judge.tally import Tally, worst
from softcheck.operations import ulp
from softcheck.operations.arithmetic import Arithmetic, model
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
    with_peaks: bool = False,
) -> Measurement:
    """Measures one output against the exact answer for its input and lists the broken promises about values.

    ``input_bits`` and ``output_bits`` are [rows, columns] bit patterns of the format; an output with one answer for each row is
    [rows, 1], and may be of float32; one with parts (``Operation.parts``) has them one behind the other. ``fully_masked`` is the
    answer for a row of -inf. ``arithmetic`` is the arithmetic whose errors are allowed; the default is the standard contract.
    ``reference`` is the result of the function ``reference`` for this input and convention, if the caller has it
    already. ``with_peaks`` asks for the largest errors by distance and by column, which cost a few per cent more.

    An element that is NaN or infinite on one side only is a violation: it has no ULP error, and its row has no sum.
    Rows that the reference's own uncertainty could decide are judged again with the Arb oracle, and count in
    ``rejudged_rows``. The function computes in the standard floating-point environment, whatever the calling thread's
    is. Temporaries take some 40 float64 per element of the widest row, or of 2^15 elements if rows are shorter.

    Raises UsageError if shapes or bit widths don't match.
    """
    _check(input_bits, output_bits, fmt, reference, operation)
    rows, columns = input_bits.shape
    output_fmt = format_of(output_bits, fmt)
    constants = model(arithmetic, output_fmt)
    standard = None if constants == model(STANDARD, output_fmt) else model(STANDARD, output_fmt)
    tally, parts = Tally(operation.rules), [Measurement()]
    with_peaks = with_peaks and operation.answers_logits
    step = max(1, _BLOCK_ELEMENTS // max(1, columns, output_bits.shape[1]))
    for first in range(0, rows if columns else 0, step):
        chosen = slice(first, min(first + step, rows))
        values = decode(input_bits[chosen], fmt)
        own = operation.of_rows(chosen)
        answer = rows_of(reference, chosen) if reference is not None else own.answer(values, fmt, fully_masked)
        outputs = output_bits[chosen]
        block = Block.of(first, input_bits[chosen], outputs, output_fmt, answer, constants, own, values, fmt)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            doubtful = block.doubtful_rows()
            if len(doubtful):
                block = block.with_reference(doubtful, own.of_rows(doubtful).prove(values[doubtful], fmt, fully_masked))
            share = None if standard is None else block.largest_share(standard)
            parts.append(_figures(block, len(doubtful), share, with_peaks=with_peaks))
            tally.add(block)
    return msgspec.structs.replace(
        merge(parts),
        rows=rows,
        columns=columns,
        violations=tally.violations(),
        contract=None if standard is None else arithmetic,
    )


def _check(input_bits: Bits, output_bits: Bits, fmt: Format, given: Reference | None, operation: Operation) -> None:
    allowed = {fmt.storage, *({FLOAT32.storage} if operation.answers_rows and fmt.width == 16 else ())}
    for name, bits, storages in (("input", input_bits, {fmt.storage}), ("output", output_bits, allowed)):
        if bits.ndim != 2 or bits.dtype not in storages:
            raise UsageError(
                f"{name} bits have shape {bits.shape} and dtype {bits.dtype}, expected [rows, columns] of {fmt.storage} for "
                f"{fmt.name}; pass the tensor's bit patterns"
            )
    shape = operation.output_shape(*input_bits.shape)
    if output_bits.shape != shape:
        raise UsageError(
            f"the output has shape {output_bits.shape}, expected {shape} for an input of {input_bits.shape}; report it as "
            "wrong_shape instead of judging it"
        )
    if given is not None and given.high.shape != shape:
        raise UsageError(
            f"the reference has shape {given.high.shape}, expected {shape} for an input of {input_bits.shape}; compute it from "
            "this input"
        )


def _figures(block: Block, rejudged: int, standard_share: float | None, *, with_peaks: bool) -> Measurement:
    """A block's figures, with its rejudged rows and its share of the standard contract's bound."""
    comparable, summed = block.specials.comparable, block.summed_rows.any()
    errors = block.errors if comparable.all() else block.errors[comparable]
    part = Measurement(
        elements=errors.size,
        ulp_sum=float(errors.sum()),
        max_standard_share=standard_share,
        max_sum_deviation=float(np.nanmax(np.abs(block.sum_deviations))) if summed else None,
        sum_violations=int(np.count_nonzero(block.sum_violations)) if summed else 0,
        special_rows=int(np.count_nonzero(~block.specials.ordinary)),
        fully_masked_rows=int(np.count_nonzero(np.isneginf(block.logits).all(axis=1))),
        special_mismatches=int(np.count_nonzero(block.specials.mismatched)),
        rejudged_rows=rejudged,
    )
    if not errors.size:
        return part
    by_distance, by_column = peaks(block) if with_peaks else ({}, {})
    return msgspec.structs.replace(
        part,
        max_ulp=worst(block, block.errors),
        max_ulp_ftz=float(np.nanmax(ulp.error_as_if_flushing(block.errors, block.output, block.exact))),
        max_bound_share=worst(block, block.shares),
        flushed=int(np.count_nonzero(block.flushed)),
        histogram=histogram(errors),
        by_distance=by_distance,
        by_column=by_column,
    )
