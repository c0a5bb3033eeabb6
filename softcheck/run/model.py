"""A check's options, its results, and the events that a caller may watch. Imports no torch."""

from collections.abc import Callable
from dataclasses import dataclass, field

from softcheck.cases.case import Case
from softcheck.contract import FindingKind
from softcheck.probes.registry import Effort
from softcheck.run.blames import Blame
from softcheck.run.exhaust import Exhausted
from softcheck.run.generate import Generated
from softcheck.run.patience import HANG_SECONDS, Over
from softcheck.run.probing import ProbeResult
from softcheck.run.process import DeviceChoice
from softcheck.run.protocol import ProbeTask, Ready
from softcheck.run.session import CaseMeasurement
from softcheck.run.widths import COMPILE_SECONDS, WidthLimit
from softcheck.speed.samples import Shape, ShapeSamples
from softcheck.variants.declaration import Backend, Declaration
from softcheck.variants.recognised import Recognised


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChoices:
    """Options of a check that are those of its command."""

    axis: str | None = None
    """The one way that the probe ``meetings`` calls; None for a plan of ways."""
    generate: int = 0
    strict_declarations: bool = False
    """True if a declared defect that does not show is an error."""
    compile_seconds: float = COMPILE_SECONDS
    """Seconds that the kernels of a wide row may take to compile on a GPU. Wider rows are left out."""
    require_coverage: float = 0.0
    """Percent of the lines of a variant's own code that calls must run."""
    require_all_sizes: bool = False
    """True if sizes that a variant refuses, or that take too long to compile, are findings."""
    in_order: bool = False
    """True if cases, and after them probes, run one after the other in the given order, in one process."""
    check_heap: bool = False
    """True if glibc checks the heap of workers."""
    peers: bool = False
    """True if the verdicts of usual rules on each case's output are measured too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(RunChoices):
    """Options of a check. ``cases`` are already selected; ``whole_corpus`` is True if they include every edge case."""

    variants: tuple[str, ...]
    dtypes: tuple[str, ...]
    cases: tuple[Case, ...]
    whole_corpus: bool
    probes: tuple[str, ...] = ()
    effort: Effort = "normal"
    """Amount of trials that probes make."""
    device: DeviceChoice = "auto"
    jobs: int | None = None
    seed: int = 0
    exhaustive: bool = False
    """True if pairs of a 16-bit dtype's patterns are judged too, on a GPU."""
    speed: bool = True
    shapes: tuple[Shape, ...] = ()
    """Rows and columns that are timed; none for those of each operation (``plan.timed_shape``)."""
    timing_seconds: float = 1.0
    """Budget of the rounds on one shape."""
    seconds_per_call: float = HANG_SECONDS

    def task(self, variant: str, dtype: str, probe: str, time_share: float = 1.0) -> ProbeTask:
        """One probe of this check."""
        return ProbeTask(
            variant=variant,
            dtype=dtype,
            probe=probe,
            effort=self.effort,
            axis=self.axis,
            seed=self.seed,
            time_share=time_share,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """A variant that is called no more in one dtype, and the cases and probes left out for that."""

    variant: str
    dtype: str
    over: Over
    cases: tuple[Case, ...]
    probes: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Run:
    """All measurements of a run, in the order in which they were made."""

    options: RunOptions
    ready: Ready
    declarations: dict[str, Declaration] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """Variants that can't be judged at all, with the reason."""
    facts: dict[str, Recognised] = field(default_factory=dict)
    """What trials have shown of the variants' calls, by name."""
    at_defaults: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Parameters of each variant's function that keep their defaults in its calls."""
    results: list[CaseMeasurement] = field(default_factory=list)
    probed: list[ProbeResult] = field(default_factory=list)
    exhausted: list[Exhausted] = field(default_factory=list)
    generated: list[Generated] = field(default_factory=list)
    width_limits: list[WidthLimit] = field(default_factory=list)
    """Widths from which on a variant was not run, since its kernels would take too long to compile."""
    given_up: list[GivenUp] = field(default_factory=list)
    blames: list[Blame] = field(default_factory=list)
    """Causes of processes that ended through another call than the one in which they ended."""
    speeds: list[ShapeSamples] = field(default_factory=list)
    untimed: list[str] = field(default_factory=list)
    """Variants and shapes that could not be timed, with the reason."""
    errors: list[str] = field(default_factory=list)
    """Cases that could not be made or placed, and probes that could not be carried out, with the reason."""
    notes: list[str] = field(default_factory=list)
    stages: dict[str, float] = field(default_factory=dict)
    """Wall seconds of each stage, in order."""
    interrupted: bool = False
    is_complete: bool = False
    """True if every stage came to its end."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Findings on one variant in one dtype so far."""

    variant: str
    dtype: str
    results: int
    """Cases and probes that have a result."""
    kinds: tuple[str, ...]
    """Kinds of findings that no declared defect explains, in the order in which they came."""

    def __str__(self) -> str:
        found = f"fail: {', '.join(self.kinds)}" if self.kinds else "pass"
        return f"{self.variant} {self.dtype}: {found} so far"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFinding:
    """The first finding of its kind of one variant in one dtype that no declared defect explains."""

    variant: str
    dtype: str
    kind: FindingKind
    where: str
    """The case's id; for a probe's ``probe/NAME/LABEL``."""
    made_by: Case | ProbeTask
    """The case or probe that shows the finding again."""
    backend: Backend
    seconds_per_call: float = HANG_SECONDS


@dataclass(frozen=True, slots=True)
class Events:
    """Callbacks for a stage's name when it begins, (done, total) within it, verdicts as they stand, and first findings."""

    stage: Callable[[str], None] = lambda _: None
    progress: Callable[[int, int], None] = lambda _done, _total: None
    standing: Callable[[Standing], None] = lambda _: None
    found: Callable[[FirstFinding], None] = lambda _: None
    told: Callable[[str], None] = lambda _: None
    """Called with a line on a variant that is known before its cases run, such as which operation it is judged as."""
