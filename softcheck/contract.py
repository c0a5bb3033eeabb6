"""The closed list of promises that a kernel can break, and one broken promise as the judge sees it."""

from enum import StrEnum

import msgspec

from softcheck.facts import Facts


class FindingKind(StrEnum):
    """Kinds of findings; docs/contract.md lists them."""

    ULP_EXCEEDS_BOUND = "ulp_exceeds_bound"
    SUM_VIOLATION = "sum_violation"
    NAN_MISMATCH = "nan_mismatch"
    INF_MISMATCH = "inf_mismatch"
    OUT_OF_RANGE = "out_of_range"
    MASKED_NOT_ZERO = "masked_not_zero"
    ORDER_VIOLATION = "order_violation"
    UNWRITTEN_OUTPUT = "unwritten_output"
    OUT_OF_BOUNDS_WRITE = "out_of_bounds_write"
    OUT_OF_BOUNDS_READ = "out_of_bounds_read"
    INPUT_MODIFIED = "input_modified"
    OUTPUT_REUSED = "output_reused"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    WRONG_LAYOUT = "wrong_layout"
    WRONG_GRADIENT = "wrong_gradient"
    NONDETERMINISTIC = "nondeterministic"
    ROW_DEPENDENCE = "row_dependence"
    CRASH = "crash"
    TIMEOUT = "timeout"
    COMPILE_ERROR = "compile_error"
    OUT_OF_MEMORY = "out_of_memory"
    RAISED = "raised"
    STATE_CHANGED = "global_state_changed"
    SIZE_REFUSED = "size_refused"
    EMPTY_REFUSED = "empty_refused"
    ARITHMETIC_CONTRADICTED = "arithmetic_contradicted"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An exception with which a variant turns an input down before it does anything."""

    rows: int
    columns: int
    error: str
    """Type and message."""
    place: str
    """File and line that raise it."""
    answered: int | None = None
    """Largest answered size of a sweep over sizes. Every larger size that was tried was refused."""

    @property
    def kind(self) -> tuple[str, str]:
        """The common part of two refusals for the same reason: the type of the exception and its place."""
        return self.error.partition(":")[0].partition(" of ")[0], self.place


class Surroundings(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Elements of a witness's row from ``first_column`` on, the witness among them, and the whole row where it is short."""

    first_column: int
    inputs: str
    """Bit patterns in hexadecimal, parted by spaces, as all that follows is; empty if the whole row has one answer."""
    outputs: str
    exact: str
    """Exact values in decimal, to some digits more than the format tells apart; ``<1e-300`` for what float64 can't hold."""
    ulps: str
    """Errors in ULPs, ``-`` where an element has none."""
    bounds: str
    """Largest errors allowed, in ULPs, ``-`` where an element has no bound."""
    row: str | None = None
    """Bit patterns of the whole input row; None if it is wide."""


class Violation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One kind of broken promise on one case, with its worst element as witness. Fields that don't apply are None."""

    kind: FindingKind
    message: str
    """The value, the expected value, and the difference; one line."""
    count: int = 1
    """Elements (rows, for sums) of the case that break the promise."""
    row: int | None = None
    column: int | None = None
    input_bits: str | None = None
    output_bits: str | None = None
    share: float | None = None
    """The witness's error over its bound, or a sum's deviation over what rounding allows; None for other kinds."""
    refusal: Refusal | None = None
    """Set where the variant refused the input. Whether that is a limit of sizes, all calls together show."""
    around: Surroundings | None = None
    """The elements around the witness, or around a row's worst element; None where the judge did not see them."""
    facts: Facts = Facts()
    """The numbers and circumstances that the message tells, as far as they are known."""

    def told(self, words: str, /, **way: str) -> "Violation":
        """Returns the same in circumstances that stand before its message, with those that have an axis among its facts."""
        facts = self.facts.beside(**way) if way else self.facts
        return msgspec.structs.replace(self, message=f"{words}: {self.message}", facts=facts)


VALUE_KINDS = frozenset(
    {
        FindingKind.ULP_EXCEEDS_BOUND,
        FindingKind.SUM_VIOLATION,
        FindingKind.NAN_MISMATCH,
        FindingKind.INF_MISMATCH,
        FindingKind.OUT_OF_RANGE,
        FindingKind.MASKED_NOT_ZERO,
        FindingKind.ORDER_VIOLATION,
    }
)
"""Kinds that say an output value is wrong; a second run may show the cause behind them."""

WRONG_KINDS = VALUE_KINDS | {FindingKind.UNWRITTEN_OUTPUT, FindingKind.WRONG_LAYOUT}
"""Kinds that say an output is wrong, whatever explains it."""

BOUNDED_KINDS = frozenset({FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION, FindingKind.ORDER_VIOLATION})
"""Kinds of violation that depend on the errors that the variant's arithmetic allows."""
