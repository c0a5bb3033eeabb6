"""The trace of a variant: how the kernel computes single rows, step by step. Imports neither torch nor Triton."""

from typing import Literal, get_args

import msgspec

Phase = Literal[
    "load",
    "scale",
    "block_maximum",
    "running_maximum",
    "shift",
    "exponential",
    "block_sum",
    "running_sum",
    "rescale",
    "quotient",
    "logarithm",
    "round",
    "other",
    "store",
]
"""The part that a step plays in a softmax, read off the flow of data."""

PHASES: dict[str, str] = {
    **{phase: phase.replace("_", " ") for phase in get_args(Phase)},
    "scale": "scale the logits",
    "shift": "x \N{MINUS SIGN} max",
    "exponential": "exponentials",
}
"""The phases in words."""

RowStatus = Literal["ordinary", "fully masked", "has NaN", "has +inf", "partly masked"]


class TracedLane(msgspec.Struct, frozen=True, kw_only=True):
    """One lane of a step."""

    column: int | None
    """The column that the lane holds; null if the lane combines several columns or is masked."""
    value: float
    exact: float | None
    """The exact value, rounded to float64; null in a masked lane, which holds no column."""
    error: float | None
    """Error so far in ULPs of the output's format."""
    masked: bool = False


class TracedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of the kernel on the row.

    Errors are in ULPs of the output's format at the exact value; those of logits, maxima and differences of both at the exact
    value or 1, whichever is larger, since the exponential makes relative errors of their absolute ones.
    """

    phase: Phase
    text: str
    """The object of the phase, such as ``columns 0 to 127``."""
    kernel: str
    line: int | None
    """Line of the kernel's file."""
    source: str
    """The text of that line."""
    program: tuple[int, int, int]
    """Program id along each axis of the launch grid."""
    dtype: str
    """Triton's name of the type in which the result is kept."""
    columns: tuple[int, int] | None
    """First and last column on which the result depends."""
    lanes: int
    """Lanes of the result that belong to the row, masked lanes included."""
    masked: int
    """Lanes beyond the mask of the load that they come from."""
    masked_value: float | None = None
    """The value that a load gives these lanes; null if it gives several values, and in other steps."""
    value: float
    """The result in the lane with the largest error; of a scalar, the result."""
    exact: float | None
    error: float | None
    """Largest error so far over the lanes; null if no lane holds a column."""
    own: float | None
    """Largest error that this step alone adds: its result against the exact result of the values that it was given."""
    at: int | None = None
    """Column of the lane whose figures these are."""
    shown: tuple[TracedLane, ...] = ()
    """Some of the lanes; all of them if there are few."""
    note: str = ""
    makes_nan: bool = False
    """True if a lane of the row is NaN here, and no operand is."""


class TracedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of a row: the kernel's, and the exact one. Null where the kernel computes no such figure."""

    kernel: float | None
    exact: float | None


class TracedRow(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of one row in one call of the variant."""

    row: int
    columns: int
    block: int
    """Most lanes that a load of the row has: the kernel's block size."""
    status: RowStatus
    maximum: TracedFigure
    sum_of_exponentials: TracedFigure
    sum_of_probabilities: TracedFigure
    entropy: TracedFigure
    """In nats."""
    least_probability: TracedFigure
    largest_probability: TracedFigure
    steps: tuple[TracedStep, ...]
    steps_left_out: int = 0
    """Steps between the first and the last ones that were cut."""
    born: int | None = None
    """Index of the step that adds the largest error of its own, or of the first that makes a NaN where one is returned in place of a
    number; null if there is none."""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Recordings of one variant's kernels under Triton's interpreter. Errors are in ULPs of the output's format."""

    schema_version: Literal[1] = 1
    kind: Literal["trace"] = "trace"
    variant: str
    operation: str
    dtype: str
    case: str
    triton: str
    command: str
    """The command that records the same."""
    rows: tuple[TracedRow, ...]
    notes: tuple[str, ...] = ()
