"""The report model: the one structure that every output format is drawn from, and the canonical JSON's schema."""

from typing import Any, Final, Literal

import msgspec

from softcheck.cases.case import Case
from softcheck.contract import FindingKind, Surroundings
from softcheck.facts import Facts
from softcheck.operations.registry import DEFAULT
from softcheck.probes.outcome import Coverage, KernelArithmetic, RandomRows, SeenRegime
from softcheck.speed.samples import Alarm, Method
from softcheck.speed.statistics import Interval, Word
from softcheck.tracing.model import Trace
from softcheck.variants.place import SourcePlace

TORCH = "torch"
"""The name of torch's own variant of softmax, beside which others are timed."""


class SpeedFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One variant on one shape. A figure that was not measured is null, never 0."""

    variant: str
    seconds: Interval | None = None
    """Seconds of one call whose input is not in the cache. The launch itself is hidden or, in a graph, absent."""
    launch_seconds: Interval | None = None
    """Seconds of one plain launch on an idle device, if ``seconds`` are those of a graph."""
    method: Method = "launch"
    gb_per_s: float | None = None
    """Rate if each element of each operand is read or written once, whatever the algorithm moves; from the median."""
    tflop_per_s: float | None = None
    """Rate of the floating-point operations that the operation counts; null where only bytes count."""
    copy_share: Interval | None = None
    """The device copy's seconds over the variant's, formed within rounds."""
    times_faster: Interval | None = None
    """The reference's seconds over the variant's, formed within rounds."""
    word: Word | None = None
    """The verdict of ``times_faster``; null for the reference itself."""
    traffic_gb_per_s: float | None = None
    """Traffic of the declared algorithm, caches not counted."""
    roofline_share: float | None = None
    """The traffic over a device copy's in the same time; above 1 a cache served some of it."""
    max_ulp: float | None = None
    """Largest ULP error of the judged rows of the timed input: a lower bound."""
    reason: str | None = None
    """The reason why there are no figures."""
    notes: tuple[str, ...] = ()


class ShapeSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """All variants on one shape, measured in the same rounds."""

    dtype: str
    rows: int
    columns: int
    reference: str
    operation: str = DEFAULT
    operands: tuple[str, ...] = ()
    """Names of what the calls take beside the matrix; torch's own takes the same."""
    copy_seconds: Interval
    copy_gb_per_s: float
    torch_seconds: Interval
    torch_gb_per_s: float | None = None
    torch_tflop_per_s: float | None = None
    torch_way: str | None = None
    """The way that torch's own took, as its quickest backend; null where it has one."""
    variants: tuple[SpeedFigures, ...]
    rounds: int
    stopped: Literal["precise", "budget", "rounds"]
    cache: Literal["cold", "unverified"]
    alarms: tuple[Alarm, ...] = ()
    clock_mhz: int | None = None
    wall_seconds: float = 0.0


class SpeedMean(msgspec.Struct, frozen=True, kw_only=True):
    """Geometric means of one variant in one dtype over the shapes where it was measured."""

    variant: str
    dtype: str
    shapes: int
    left_out: int
    """Shapes without a figure, which the means say nothing of."""
    times_faster: Interval | None
    copy_share: Interval | None


Verdict = Literal["pass", "fail", "known", "unsupported", "error"]

SCHEMA_VERSION: Final = 1


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Device and software with which the figures were measured."""

    backend: Literal["cuda", "interpreter"]
    device: str
    torch: str
    triton: str
    python: str
    softcheck: str
    seed: int
    git_commit: str | None
    driver: str | None = None
    command: str


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """The element that shows a maximum. Bits are hexadecimal; ``exact`` is the exact softmax in decimal."""

    case: str
    row: int
    column: int
    input_bits: str
    output_bits: str
    exact: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One broken promise, with the command that shows it again."""

    id: str
    """Twelve hexadecimal digits; stable for the same variant, dtype, kind and case."""
    kind: FindingKind
    case: str
    """The case's id; for a probe's finding ``probe/NAME/LABEL``, its name and the trial."""
    message: str
    reproduce: str
    count: int = 1
    row: int | None = None
    column: int | None = None
    input_bits: str | None = None
    output_bits: str | None = None
    known: str | None = None
    """The declared defect's reason, if a defect explains this finding."""
    save: str | None = None
    """The command that adds a row that alone breaks the promise to the corpora, if a probe found one."""
    script: str | None = None
    """A Python script that earlier versions wrote: read and written again, not shown."""
    around: Surroundings | None = None
    """The elements around the witness; null where they are not known, and in all findings but the first of each kind, cause
    and probe."""
    share: float | None = None
    """The largest error over its bound, or a sum's deviation over what is allowed, of all elements that break the promise."""
    facts: Facts = Facts()
    """The witness's numbers, and the circumstances in which it shows."""

    @property
    def from_probe(self) -> bool:
        """True if a probe's trial shows the finding rather than a saved or generated case."""
        return self.probe is not None

    @property
    def probe(self) -> str | None:
        """The probe that shows it; None where a case does."""
        prefix, _, rest = self.case.partition("/")
        return rest.partition("/")[0] if prefix == "probe" else None


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """A property that some findings have in common, with what usually leads to it."""

    text: str
    findings: tuple[str, ...]
    """Ids of the findings that it explains."""
    mend: str = ""
    """The usual fix; empty if there is none to name."""
    declare: str = ""
    """The promise of ``@variant`` under which these would be no findings; empty if none is."""
    right_on: str = ""
    """Words for the inputs on which that promise holds."""


class Bin(msgspec.Struct, frozen=True, kw_only=True):
    """Elements with an ULP error below ``below`` and not in the bin before it."""

    below: float
    elements: int


class ErrorPeak(msgspec.Struct, frozen=True, kw_only=True):
    """The largest error and bound, in ULPs, of the elements below an edge and not in the bin before it."""

    below: float | None
    """A distance max x - x_j, or a column; null for the last bin, which has no end."""
    ulp: float
    bound: float
    share: float
    """Largest error over the element's own bound. It may be above 1 where ``ulp`` is below ``bound``, another element's."""


class PeerVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of a usual rule on the outputs of cases."""

    rule: str
    """``2x``, flash-attention's, or ``assert_close``, torch.testing's."""
    cases: int
    """Cases that the rule could judge."""
    refused: int


class VariantResult(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table: one variant in one dtype. A figure that was not measured is null, never 0."""

    name: str
    dtype: str
    verdict: Verdict
    operation: str = DEFAULT
    """The operation that the variant computes, as far as it is known."""
    reason: str | None = None
    """The reason why the verdict is unsupported or error."""
    place: SourcePlace | None = None
    """The line at which the variant's kernel, or else its function, begins; null if its source is unknown."""
    cases_run: int = 0
    cases_unable: int = 0
    """Cases that could not be run here, as where Triton's interpreter can't; the notes say why."""
    probes_run: dict[str, int] = {}
    """Number of trials made, by probe; a probe that was not run is absent."""
    trials_planned: int = 0
    """Trials that probes planned for the variant, but for those that had nothing to try."""
    trials_cut: int = 0
    """Trials of these that were not made, or not in full, for want of time or memory."""
    properties: dict[str, bool] = {}
    """Properties that are reported without being promised, such as ``batch_invariant``, and whether they hold."""
    arithmetic: KernelArithmetic | None = None
    """The arithmetic of the variant's kernels; null if it launches none of its own and declares nothing, or if no probe
    read them."""
    sampled: RandomRows | None = None
    """The extent of random rows that probes judged beside the cases; null if none were drawn."""
    regimes: int | None = None
    """Number of paths that calls take, by kernels, constants and lines; null if the probe "regimes" did not look."""
    seen_regimes: tuple[SeenRegime, ...] = ()
    """These paths, each with the shapes that take it in words; their names are left out."""
    judged_shapes: dict[str, str] = {}
    """Shapes of cases, and of trials over sizes and shapes, by the kinds of findings that showed there, ``refused``, or
    ``right``. One is written as ROWSxCOLUMNS, and one with every width from the first to the last as ROWSxFIRST-LAST."""
    coverage: Coverage | None = None
    """Lines of the variant's own code that calls ran; null if the probe "regimes" did not look or found no source."""
    elements: int = 0
    max_ulp: float | None = None
    mean_ulp: float | None = None
    p999_ulp: float | None = None
    ulp_is: Literal["exact", "at least"] = "at least"
    witness: Witness | None = None
    max_ulp_ftz: float | None = None
    max_bound_share: float | None = None
    """Largest error over the bound of the variant's contract on that element."""
    weaker_contract: str | None = None
    """Words for what the declaration allows beyond the standard contract; null if the variant is held to the standard
    one."""
    not_judged: tuple[str, ...] = ()
    """Options of the function, and parameters of the operation, of which calls had one value alone: ``head_dim other than 64``."""
    holds: str | None = None
    """Words for the size up to which the verdict holds, with the reason; null if every size was run."""
    max_standard_share: float | None = None
    """Largest error over the standard contract's bound, sums included; null if the variant is held to that contract."""
    flushed: int | None = None
    max_sum_deviation: float | None = None
    sum_violations: int | None = None
    special_mismatches: int | None = None
    rejudged_rows: int | None = None
    max_abs_difference_to_torch: float | None = None
    peers: tuple[PeerVerdict, ...] = ()
    """Verdicts of usual rules on the same outputs; empty if nobody asked."""
    findings: tuple[Finding, ...] = ()
    causes: tuple[Cause, ...] = ()
    """Causes of the findings that no declared defect explains: writes out of bounds first, then the one that explains most."""
    gb_per_s: float | None = None
    tflop_per_s: float | None = None
    """Rate of the floating-point operations that the operation counts; null where only bytes count or nothing was timed."""
    speed_vs_torch: float | None = None
    histogram: tuple[Bin, ...] = ()
    """ULP errors over all cases."""
    error_by_distance: tuple[ErrorPeak, ...] = ()
    """Peaks over all cases by the distance max x - x_j of a logit from its row's largest, of elements that have a bound. Empty
    bins are left out, and so are outputs that were judged on a GPU."""
    error_by_column: tuple[ErrorPeak, ...] = ()
    """The same by column."""
    seconds: float = 0.0

    @property
    def trials(self) -> int:
        """Trials of all probes."""
        return sum(self.probes_run.values())

    @property
    def was_run(self) -> bool:
        """True if anything was judged: a case or a probe's trial."""
        return self.cases_run > 0 or self.trials > 0


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """A case that was run. ``definition`` is the case itself where softcheck's own corpora do not hold it."""

    id: str
    family: str
    shape: tuple[int, int]
    rows_run: int
    definition: Case | None = None


class Exhaustive(msgspec.Struct, frozen=True, kw_only=True):
    """Details of a row of the table that judged a whole set of inputs instead of a corpus."""

    name: str
    dtype: str
    domain: str
    """The set in words."""
    is_complete: bool
    """True if the set is every row of this many columns that the format has, and none was left out."""
    max_ulp: float | None = None
    ulp_is: Literal["exact", "at least"] = "at least"
    rows: int
    ordinary_rows: int
    nan_rows: int
    """Rows with a NaN or a +inf, whose answer is NaN."""
    fully_masked_rows: int
    unjudged_rows: int = 0
    """Rows of calls that gave no output; they are in none of the three classes."""
    histogram: tuple[Bin, ...]
    rows_per_second: float
    judged_in: str = "numpy"
    """``numpy``, or on a GPU the arithmetic of the judge's first look, ``float64``."""


class CopyBaseline(msgspec.Struct, frozen=True, kw_only=True):
    """Device copy measured beside the variants; GB/s counts bytes read and written."""

    dtype: str
    rows: int
    columns: int
    gb_per_s: float
    torch_gb_per_s: float


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a run and the wall time that it took."""

    name: str
    seconds: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one run found."""

    schema_version: Literal[1] = SCHEMA_VERSION
    environment: Environment
    variants: tuple[VariantResult, ...]
    cases: tuple[CaseResult, ...]
    exhaustive: tuple[Exhaustive, ...] = ()
    searches: tuple[dict[str, Any], ...] = ()
    """Results of ``softcheck search``, a command of earlier versions: read and written again, not shown."""
    speed: tuple[CopyBaseline, ...] = ()
    timings: tuple[ShapeSpeed, ...] = ()
    """Timings behind the columns of speed."""
    traces: tuple[Trace, ...] = ()
    """Single rows as kernels compute them, step by step; empty unless they were asked for."""
    stages: tuple[Stage, ...] = ()
    """Wall time of the run by stage, in order."""
    interrupted: bool = False
    """True if the run was ended early; the figures then cover the measurements made by that time."""
    errors: tuple[str, ...] = ()
    """Cases that could not be run through no fault of a variant, each with the reason."""
    calls: tuple[str, ...] = ()
    """How each variant is called and what it is judged as, but for built-in ones, one line each."""
    notes: tuple[str, ...] = ()
    """Parts left out of this run, with the reason."""
    seconds: float


class SpeedReport(msgspec.Struct, frozen=True, kw_only=True):
    """Results of ``softcheck bench``. Schema versions are the report's."""

    schema_version: Literal[1] = SCHEMA_VERSION
    kind: Literal["speed"] = "speed"
    environment: Environment
    reference: str
    shapes: tuple[ShapeSpeed, ...]
    means: tuple[SpeedMean, ...]
    interrupted: bool = False
    errors: tuple[str, ...] = ()
    """Variants and shapes without any figure, each with the reason."""
    seconds: float
