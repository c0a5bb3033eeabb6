"""Records one call of a variant under Triton's interpreter, and draws the steps of single rows from it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from oracles.formats import FORMATS, Bits, Format, Values, decode
from softcheck.calling import launches
from softcheck.calling.call import call_on_device, place, to_bits
from softcheck.cases.case import Layout
from softcheck.errors import NothingRunError, WithoutKernelError
from softcheck.judge.judge import reference
from softcheck.operations.operation import Operation
from softcheck.probes.poison import nan_filled
from softcheck.tracing.memory import Memory, Region
from softcheck.tracing.model import RowStatus, TracedFigure, TracedRow, TracedStep
from softcheck.tracing.recorder import TracedOperation, recording
from softcheck.tracing.shadow import Array, Wide
from softcheck.tracing.steps import Answers, last_stores, step_of, untouched
from softcheck.variants.registry import LoadedVariant

MOST_STEPS = 120
"""Steps of a row that a trace keeps; the first ones and the last ones if there are more."""
_LAST_STEPS = 40

_MISREAD = 64
"""Times that an exact figure may be farther from the exact output than the kernel's own figure is."""


def record(
    variant: LoadedVariant, bits: Bits, fmt: Format, layout: Layout, rows: Sequence[int], focus: int | None = None
) -> tuple[tuple[TracedRow, ...], tuple[str, ...]]:
    """Calls a variant on a matrix of bits [rows, columns], and returns the steps of some rows, and notes.

    Triton must interpret kernels in this process. ``focus`` is a column whose lane each step shows. Raises NothingRunError if
    the operation takes a matrix for each row, if the call gives no output, launches no Triton kernel or none that reads one of the rows, and UninterpretableError as
    ``calling.call.call`` does.
    """
    if variant.operation.parts is not None or variant.operation.matrix is not None:
        raise NothingRunError(
            f"{variant.name} computes {variant.operation.name}, whose answer for a row is that of several queries or rows; a trace follows rows "
            "with one answer, or one for each logit: trace a variant of another operation"
        )
    with np.errstate(all="ignore"):
        traced, notes = _record(variant, bits, fmt, layout, rows, focus, rescales=True)
        stores = [step for row in traced for step in row.steps if step.phase == "store"]
        # The exact figures of the steps don't lead to the exact outputs, though the kernel's figures do.
        if any((step.own or 0.0) > _MISREAD * ((step.error or 0.0) + 1.0) for step in stores):
            traced, _ = _record(variant, bits, fmt, layout, rows, focus, rescales=False)
            notes.append(
                "how the kernel rescales is not recognised: its sums are compared with the same sums in more precision"
            )
    if not any(row.steps for row in traced):
        raise NothingRunError(
            f"{variant.name}: no kernel was seen to read row {rows[0]}, perhaps because the variant changes its input before it "
            "launches one; trace a variant whose kernels read the input itself"
        )
    return tuple(traced), tuple(notes)


def _record(
    variant: LoadedVariant,
    bits: Bits,
    fmt: Format,
    layout: Layout,
    rows: Sequence[int],
    focus: int | None,
    *,
    rescales: bool,
) -> tuple[list[TracedRow], list[str]]:
    values = decode(bits, fmt)
    placed = place(bits, fmt, layout, torch.device("cpu"))
    memory = Memory(placed.view, values, set(rows))
    before = launches.counted()
    with nan_filled(), recording(memory, rescales=rescales) as recorder:
        returned = call_on_device(variant.function, placed, variant.operation)
    if returned.output is None:
        said = "; ".join(violation.message for violation in returned.violations)
        raise NothingRunError(f"{variant.name} gives no output to trace: {said}")
    if launches.counted() == before:
        raise WithoutKernelError(
            f"{variant.name} launches no Triton kernel on this input; a trace records Triton kernels, under Triton's "
            "interpreter: name a variant that launches one"
        )
    operation, output = variant.operation, returned.output
    answer = reference(values, fmt, variant.declaration.fully_masked, operation)
    # An answer for a row may be of a wider format than the input.
    output_fmt = FORMATS[str(output.dtype).removeprefix("torch.")]
    answers = Answers(
        output_fmt,
        operation.least_scale(values, answer.values, fmt),
        np.ldexp(answer.high.astype(Wide) + answer.low, answer.exponent.astype(np.int32)),
        memory.matrices.get(output.data_ptr()) or Region.of(output),
    )
    written = decode(to_bits(output, output_fmt), output_fmt)
    traced, notes = [], []
    if recorder.unfollowed:
        said = ", ".join(sorted(recorder.unfollowed))
        notes.append(f"not followed, so that results count as exact from there on: {said}")
    operations = last_stores(recorder.operations)
    for row in rows:
        steps = [step for one in operations if (step := step_of(row, one, answers, focus)) is not None]
        of_row = [one for one in operations if (one.shadow.row == row).any()]
        notes += untouched(row, len(values[row]), operations, answers)
        traced.append(_row(row, steps, of_row, values[row], written[row], answer.values[row], operation))
    return traced, notes


def _row(
    row: int,
    steps: list[TracedStep],
    operations: Sequence[TracedOperation],
    logits: Values,
    outputs: Values,
    exact: Values,
    operation: Operation,
) -> TracedRow:
    born = max(range(len(steps)), key=lambda i: steps[i].own or 0.0, default=None)
    born = born if born is not None and steps[born].own else None
    if (np.isnan(outputs) & ~np.isnan(exact)).any():
        # The exact figures are NaN from there on too, so that the error shows where the NaN is stored, and was made before.
        born = next((i for i, step in enumerate(steps) if step.makes_nan), born)
    first = MOST_STEPS - _LAST_STEPS
    kept: Sequence[int] = range(len(steps))
    if len(steps) > MOST_STEPS:
        kept = sorted({*range(first), *range(len(steps) - _LAST_STEPS, len(steps)), *([] if born is None else [born])})
    wide = logits.astype(Wide)
    powers = np.exp(wide - wide.max())
    due: Array = operation.probabilities(exact).astype(Wide) if operation.answers_elements else powers / powers.sum()
    got = operation.probabilities(outputs).astype(Wide) if operation.answers_elements else None

    def of_both(figure: Callable[[Array], Any]) -> TracedFigure:
        return TracedFigure(kernel=None if got is None else float(figure(got)), exact=float(figure(due)))

    return TracedRow(
        row=row,
        columns=len(logits),
        block=max((step.lanes for step in steps if step.phase == "load"), default=0),
        status=_status(logits),
        maximum=_last(row, operations, ("block_maximum", "running_maximum"), "maximum", wide.max()),
        sum_of_exponentials=_last(row, operations, ("block_sum", "running_sum"), "sum", powers.sum()),
        sum_of_probabilities=of_both(np.sum),
        entropy=of_both(_entropy),
        least_probability=of_both(np.min),
        largest_probability=of_both(np.max),
        steps=tuple(steps[i] for i in kept),
        steps_left_out=len(steps) - len(kept),
        born=None if born is None else list(kept).index(born),
    )


def _last(
    row: int, operations: Sequence[TracedOperation], phases: Sequence[str], kind: str, otherwise: Values
) -> TracedFigure:
    """The last maximum or sum of the whole row that a kernel computed, else the exact figure alone."""
    for operation in reversed(operations):
        of_row = operation.shadow.row == row
        if operation.phase in phases and operation.shadow.kind == kind and of_row.sum() == 1:
            exact = operation.shadow.exact[of_row][0]
            return TracedFigure(kernel=float(operation.values[of_row][0]), exact=float(exact))
    return TracedFigure(kernel=None, exact=float(otherwise))


def _entropy(probabilities: Array) -> float:
    """-sum p ln p in nats, of which a probability of 0 is no part."""
    held = probabilities[probabilities != 0]
    return float(-(held * np.log(held)).sum() + 0.0)


def _status(logits: Values) -> RowStatus:
    if np.isnan(logits).any():
        return "has NaN"
    if np.isposinf(logits).any():
        return "has +inf"
    masked = np.isneginf(logits)
    return "fully masked" if masked.all() else "partly masked" if masked.any() else "ordinary"
