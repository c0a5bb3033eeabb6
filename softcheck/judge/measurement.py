"""The judge's measurement of one variant on one case: a few numbers, small enough to send and to journal."""

import msgspec

from softcheck.contract import Violation
from softcheck.operations.arithmetic import Arithmetic


class Extreme(msgspec.Struct, frozen=True):
    """A largest value and the element that shows it."""

    value: float
    row: int
    column: int
    input_bits: str
    """Empty if the whole row has one answer."""
    output_bits: str


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one judged output. A figure that was not measured is None, never 0."""

    rows: int
    columns: int
    elements: int = 0
    """Elements with a finite reference and a finite output. Only these have an ULP error."""
    max_ulp: Extreme | None = None
    ulp_sum: float = 0.0
    """Sum of the ULP errors of these elements; divide by ``elements`` for the mean."""
    histogram: dict[int, int] = {}
    """Count of elements by bin of their ULP error; ``softcheck.judge.histogram`` defines the bins."""
    by_distance: dict[int, tuple[float, float, float]] = {}
    """Largest ULP error, largest bound in ULPs, and largest error over its own bound, of the elements that have a bound, by bin
    of max x - x_j, the distance from the row's largest logit; ``softcheck.judge.peaks`` defines the bins. Empty bins are absent. Measured where the numpy judge was asked for it, as for cases."""
    by_column: dict[int, tuple[float, float, float]] = {}
    """The same by bin of the column."""
    max_ulp_ftz: float | None = None
    """Largest ULP error in a format without subnormals, where 0 and 2^emin are one ULP apart; never above
    ``max_ulp``."""
    max_bound_share: Extreme | None = None
    """Largest error divided by the bound on it; above 1 breaks the contract."""
    max_standard_share: float | None = None
    """Largest error, or deviation of a sum from 1, over the standard contract's bound, if another arithmetic was judged
    by."""
    flushed: int = 0
    max_sum_deviation: float | None = None
    """Largest |sum - 1| over ordinary rows, summed without rounding error."""
    sum_violations: int = 0
    special_rows: int = 0
    """Rows whose answer follows a convention: NaN, +inf, or every logit -inf."""
    fully_masked_rows: int = 0
    """Special rows whose every logit is -inf."""
    special_mismatches: int = 0
    rejudged_rows: int = 0
    """Rows handed to the Arb oracle because the everyday oracle's uncertainty could change their verdict or figures."""
    violations: tuple[Violation, ...] = ()
    contract: Arithmetic | None = None
    """The arithmetic that was judged by, if it allows more than the standard contract."""
    fits: tuple[Arithmetic, ...] | None = None
    """Weaker arithmetics that explain every violation, if the bound is broken and no arithmetic was declared; else
    None."""
    unjudged_rows: int = 0
    """Rows of calls that gave no output."""
    skipped: str | None = None
    """The reason, in words, why the variant could not be run here at all; nothing is known of it then."""
    max_abs_difference_to_torch: float | None = None
    peers: dict[str, tuple[int, int]] = {}
    """Outputs that a usual rule judged, and those that it refused, by rule (``softcheck.judge.peers``); empty if nobody asked."""
    judged_in: str = "numpy"
    """The judge: ``numpy``, or ``float64`` for the judge on tensors."""


def unmeasured(shape: tuple[int, ...], violations: tuple[Violation, ...]) -> Measurement:
    """The measurement of a call that gave no output to judge: no figures, only broken promises."""
    return Measurement(rows=shape[0], columns=shape[1], unjudged_rows=shape[0], violations=violations)
