"""The recorded operations of one row as steps that a reader can follow, each with its errors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oracles.formats import Format
from softcheck.tracing.memory import Region
from softcheck.tracing.model import TracedLane, TracedStep
from softcheck.tracing.recorder import TracedOperation
from softcheck.tracing.shadow import ABSENT, DATA, LINEAR, Array, as_sets, ends_of, in_words, union_of

MOST_LANES = 16
"""Lanes of a step that a trace keeps."""
_FIRST = 6
_FAR = 1.0
"""ULPs from which on exact operations that end elsewhere are remarked upon."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The outputs that are due, and their addresses."""

    fmt: Format
    least_scale: Array | None
    """As ``Operation.least_scale``, for outputs alone."""
    exact: Array
    """Exact outputs in ``longdouble``, [rows, columns], or [rows, 1] of one answer for each row."""
    output: Region | None
    """The memory of the output; None if no kernel was given it."""


def errors(values: Array, exact: Array, fmt: Format, least_scale: Array | float = 0.0) -> Array:
    """|value - exact| in ULPs of a format at the exact value.

    Equal infinities and two NaN have the error 0, and any other value that is not finite an infinite one. So has a difference
    as small as the error of the exact figures themselves the error 0.
    """
    size = np.maximum(np.abs(exact), least_scale)
    exponent = np.where(size > 0, np.frexp(size)[1].astype(np.int64) - 1, fmt.min_exponent)
    quantum = np.maximum(exponent, fmt.min_exponent) - fmt.precision + 1
    alike = (values == exact) | (np.isnan(values) & np.isnan(exact))
    far = np.ldexp(np.abs(values - exact), -quantum.astype(np.int32))
    far = np.where(np.isfinite(values) & np.isfinite(exact), far, np.inf)
    negligible = 2.0**-6 if fmt.precision > 24 else 1e-6
    found: Array = np.where(alike | (far < negligible), 0, far)
    return found


def last_stores(operations: Sequence[TracedOperation]) -> list[TracedOperation]:
    """The operations, of whose stores only the last ones to an address have addresses: others store no output."""
    kept: list[TracedOperation] = []
    later = np.zeros(0, np.uint64)
    for operation in reversed(operations):
        if operation.addresses is None:
            kept.append(operation)
            continue
        left = np.where(np.isin(operation.addresses, later), np.uint64(0), operation.addresses)
        kept.append(replace(operation, addresses=left if left.any() else None))
        later = np.union1d(later, left[left != 0])
    return kept[::-1]


def untouched(row: int, columns: int, operations: Sequence[TracedOperation], answers: Answers) -> Iterator[str]:
    """Sentences on columns of a row that no kernel has read, or stored an output of."""
    read = stored = 0
    for operation in operations:
        if operation.phase == "load":
            read |= operation.shadow.columns_of(row)
        elif operation.addresses is not None and answers.output is not None:
            rows, places = answers.output.places(operation.addresses)
            stored |= union_of(as_sets(places[rows == row]))
    for done, count, said in ((read, columns, "read"), (stored, answers.exact.shape[1], "stored")):
        if missing := ((1 << count) - 1) & ~done:
            yield f"row {row}: {in_words(missing)}: {said} by no kernel"


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The lanes of an operation that belong to a row: with data, or masked."""

    held: Array
    masked: Array
    columns: Array
    exact: Array
    error: Array
    own: Array
    note: str


def step_of(row: int, operation: TracedOperation, answers: Answers, focus: int | None) -> TracedStep | None:
    """An operation as a step of a row, which shows the lane of the column ``focus`` if it has one; None if no lane is the row's."""
    lanes = _lanes(row, operation, answers)
    if not lanes.held.any():
        return None
    makes_nan = lanes.held & operation.makes_nan
    error = np.where(lanes.held, lanes.error, -1)
    # Exact numbers give NaN there too, so that this is no error of the step alone.
    error = np.where(makes_nan, np.inf, error) if makes_nan.any() else error
    worst = np.unravel_index(int(np.argmax(error)), error.shape)
    columns = union_of(lanes.columns[lanes.held])
    values = operation.values[lanes.masked] if operation.phase == "load" else np.array([])
    return TracedStep(
        phase=operation.phase,
        text=_words(operation, in_words(columns), int(lanes.held.sum())),
        kernel=operation.kernel,
        line=None if operation.place is None else operation.place[1],
        source=operation.source,
        program=operation.program,
        dtype=operation.dtype.name,
        columns=ends_of(columns),
        lanes=int((lanes.held | lanes.masked).sum()),
        masked=int(lanes.masked.sum()),
        masked_value=float(values[0]) if values.size and np.unique(values).size == 1 else None,
        value=float(operation.values[worst]),
        exact=float(lanes.exact[worst]),
        error=float(lanes.error[worst]),
        own=float(lanes.own[lanes.held].max()),
        at=_column(lanes.columns[worst]),
        shown=tuple(_shown(operation, lanes, worst, focus)),
        note=lanes.note or ("NaN is made here of operands that hold none" if makes_nan.any() else ""),
        makes_nan=bool(makes_nan.any()),
    )


def _lanes(row: int, operation: TracedOperation, answers: Answers) -> _Lanes:
    shadow, fmt = operation.shadow, answers.fmt
    if operation.addresses is not None and answers.output is not None:
        rows, columns = answers.output.places(operation.addresses)
        if (rows >= 0).any():
            held = rows == row
            places = np.maximum(rows, 0), np.maximum(columns, 0)
            exact, least = answers.exact[places], 0.0 if answers.least_scale is None else answers.least_scale[places]
            # The steps before can't tell if a column is stored in another one's place, or if a row was read in full.
            own = errors(shadow.exact, exact, fmt, least)
            strange = held & (shadow.row != row)
            note = "what is stored here is no value of this row" if strange.any() else ""
            if not note and (own[held] > _FAR).any():
                note = "the operations before, done exactly, do not give this row's answer"
            error = errors(operation.values, exact, fmt, least)
            # A tile of several rows has masked lanes of other rows too.
            masked = (operation.addresses == 0) & (shadow.row == row) if held.any() else np.zeros_like(held)
            return _Lanes(held, masked, as_sets(columns), exact, error, own, note)
    of_row = shadow.row == row
    # An exponential makes a relative error of an absolute one, so that an exponent near 0 is no closer than one near 1.
    scale = 1.0 if shadow.kind in LINEAR else 0.0
    error = errors(operation.values, shadow.exact, fmt, scale)
    own = errors(operation.values, operation.expected, fmt, np.maximum(scale, operation.constant))
    masked = of_row & (shadow.state == ABSENT)
    return _Lanes(of_row & (shadow.state == DATA), masked, shadow.columns, shadow.exact, error, own, operation.note)


def _shown(
    operation: TracedOperation, lanes: _Lanes, worst: tuple[np.intp, ...], focus: int | None
) -> Iterator[TracedLane]:
    places = np.argwhere(lanes.held | lanes.masked)
    if len(places) > MOST_LANES:
        wanted = {tuple(place) for place in (*places[:_FIRST], *places[-2:], *np.argwhere(lanes.masked)[:2])}
        wanted |= {tuple(worst), *(tuple(place) for place in np.argwhere(lanes.held)[-2:])}
        if focus is not None:
            wanted |= {tuple(place) for place in np.argwhere(lanes.held & (lanes.columns == 1 << focus))}
        places = np.array(sorted(wanted))
    for place in map(tuple, places):
        held = bool(lanes.held[place])
        yield TracedLane(
            column=_column(lanes.columns[place]) if held else None,
            value=float(operation.values[place]),
            exact=float(lanes.exact[place]) if held else None,
            error=float(lanes.error[place]) if held else None,
            masked=not held,
        )


def _column(columns: int) -> int | None:
    """The one column of a set; None if a lane combines several."""
    return columns.bit_length() - 1 if columns.bit_count() == 1 else None


def _words(operation: TracedOperation, columns: str, lanes: int) -> str:
    """The columns of a step, and what its phase leaves open."""
    if operation.phase in {"block_maximum", "running_maximum", "block_sum", "running_sum"} and lanes > 1:
        return f"{columns}, in each of {lanes} lanes"
    if operation.phase == "rescale":
        return _RESCALING.get(operation.name, f"what was summed so far, {columns}")
    if operation.phase in {"round", "other"}:
        return f"{'to ' if operation.phase == 'round' else ''}{operation.name}, {columns}"
    return (
        f"1 / sum, {columns}" if operation.phase == "quotient" and lanes == 1 and "column " not in columns else columns
    )


_RESCALING = {
    "sub": "the maximum before, minus the maximum so far",
    "exp": "the factor, a power of that",
    "exp2": "the factor, a power of that",
}
