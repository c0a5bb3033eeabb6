"""A made-up trace: three recordings of a kernel that loads masked lanes as 0 and errs in the sum."""

from softcheck.tracing.model import Trace, TracedFigure, TracedLane, TracedRow, TracedStep

FIGURE = TracedFigure(kernel=1.0, exact=1.0)


def step(phase, number, own=0.0, **more):
    lanes = tuple(TracedLane(column=c, value=number + c, exact=number + c, error=own) for c in range(3))
    given = {
        "phase": phase,
        "text": "columns 0 to 2",
        "kernel": "kernel",
        "line": 10 + number,
        "source": f"x{number} = tl.load(x)",
        "program": (4, 0, 0),
        "dtype": "fp32",
        "columns": (0, 2),
        "lanes": 4,
        "masked": 1,
        "masked_value": 0.0,
        "value": float(number),
        "exact": float(number),
        "error": own,
        "own": own,
        "shown": (*lanes, TracedLane(column=None, value=0.0, exact=None, error=None, masked=True)),
    }
    return TracedStep(**given | more)


def row(number, columns):
    alone = {"lanes": 1, "masked": 0, "shown": (TracedLane(column=None, value=9.5, exact=7.5, error=1e6),)}
    steps = (
        step("load", 1),
        step("block_maximum", 2, lanes=1, value=2.5),
        step("exponential", 3, own=0.5),
        step("block_sum", 4, own=1e6, **alone, value=9.5, exact=7.5),
        step("store", 5),
    )
    return TracedRow(
        row=number,
        columns=columns,
        block=4,
        status="ordinary",
        maximum=FIGURE,
        sum_of_exponentials=FIGURE,
        sum_of_probabilities=FIGURE,
        entropy=FIGURE,
        least_probability=FIGURE,
        largest_probability=FIGURE,
        steps=steps,
        born=3,
    )


TRACE = Trace(
    variant="padded.py:softmax",
    operation="softmax",
    dtype="float32",
    case="padding/one/float32",
    triton="3.9.0",
    command="softcheck trace padded.py:softmax --values '1 2 3'",
    rows=(row(4, 3), row(7, 3), row(7, 6)),
    notes=("a note",),
)
