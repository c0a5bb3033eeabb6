"""Messages between the parent, which imports no torch, and its worker processes. MessagePack over a pipe."""

from dataclasses import dataclass

import msgspec

from softcheck.cases.case import Case
from softcheck.cases.exhaustive import Domain
from softcheck.judge.measurement import Measurement
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.probes.registry import Effort
from softcheck.speed.samples import ShapeSamples, TimingPlan
from softcheck.tracing.model import TracedRow
from softcheck.variants.declaration import Backend, Declaration
from softcheck.variants.recognised import Recognised

FIRST_SHAPE = (2, 8)
"""Rows and columns of the ordinary input on which a variant is first called."""


class ProbeTask(msgspec.Struct, frozen=True, kw_only=True):
    """One probe on one variant in one dtype."""

    variant: str
    dtype: str
    probe: str
    effort: Effort = "normal"
    axis: str | None = None
    """The one way that the probe ``meetings`` calls, in place of a plan of ways."""
    seed: int = 0
    time_share: float = 1.0
    """Part of their time that probes with a limit of time take: less where many variants share a machine without a GPU."""

    def __str__(self) -> str:
        return f"probe {self.probe} on {self.variant}, {self.dtype}"


class Informed(msgspec.Struct, frozen=True, kw_only=True):
    """A request that runs variants, with what is known of their calls by name, so that no process decides for itself."""

    facts: dict[str, Recognised] = {}


class Load(Informed, frozen=True, tag=True):
    """Import a variant, and recognise its call by trials unless it is known.

    It is then tried once on a small ordinary input of the first of these dtypes that it declares. Without ``is_called`` it is only imported, and the answer is Declared and Done.
    """

    variant: str
    dtypes: tuple[str, ...]
    is_called: bool = True


class RunCase(Informed, frozen=True, tag=True):
    """Run one variant on the first rows of one case and judge its output."""

    case: Case
    variant: str
    first_rows: int | None = None
    peers: bool = False
    """True if the verdicts of usual rules are asked for too."""


class Time(Informed, frozen=True, tag=True):
    """Time variants beside torch.softmax and a device copy."""

    variants: tuple[str, ...]
    plan: TimingPlan


class RunDomain(Informed, frozen=True, tag=True):
    """Run one variant on a part of a domain and judge it."""

    domain: Domain
    start: int
    count: int
    variant: str
    at_once: int | None = None
    """Most rows of one call; None for all."""


class RunProbe(Informed, frozen=True, tag=True, kw_only=True):
    """Tell which trials a probe plans, make one of them, or conclude from the outcomes of all."""

    task: ProbeTask
    trial: int | None = None
    """The trial to make."""
    outcomes: tuple[Outcome, ...] | None = None
    """Those of all trials, to conclude from."""
    tells_calls: bool = False
    """True if the plan is to say what the trials would do."""
    widest: int | None = None
    """Most columns that are tried; None for no such limit."""

    @property
    def variant(self) -> str:
        """The variant that is probed."""
        return self.task.variant


class TryWidth(Informed, frozen=True, tag=True):
    """Call one variant on packed rows of so many columns, and report the seconds that its kernels took to compile."""

    variant: str
    dtype: str
    columns: int


class CompareOrders(Informed, frozen=True, tag=True):
    """Call one variant on sampled rows, in every order of their columns and in other rows of the batch."""

    variant: str
    dtype: str
    columns: int
    rows: int
    seed: int


class RunTrace(Informed, frozen=True, tag=True):
    """Record one call of a variant on a case, and draw the steps of some of its rows. The worker interprets kernels."""

    case: Case
    variant: str
    rows: tuple[int, ...]
    columns: int | None = None
    """Columns to which the rows are cut; None for all."""
    focus: int | None = None
    """A column whose lane each step shows."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call, or all calls of one trial, of one variant."""

    variant: str
    dtype: str
    name: str
    """The case's id, or ``probe/NAME/LABEL``."""
    request: RunCase | RunDomain | RunProbe


Request = Load | RunCase | Time | RunDomain | RunProbe | TryWidth | CompareOrders | RunTrace


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The worker is up. The fields describe its device and software."""

    backend: Backend
    device: str
    torch: str
    triton: str
    python: str
    driver: str | None
    memory_bytes: int | None = None
    """The GPU's memory; None without a GPU."""


class Declared(msgspec.Struct, frozen=True, tag=True):
    """A variant has been imported and is about to be tried once.

    If the worker dies now, the variant's cases will show it.
    """

    declaration: Declaration


class Trying(msgspec.Struct, frozen=True, tag=True):
    """A variant's likeliest call has returned and is not right, and others are tried now. If the worker dies, one of these did it."""


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """A variant is ready, with its declaration."""

    declaration: Declaration
    first_call_seconds: float
    """Seconds that the trial call took."""
    fatal: bool = False
    """True if the trial call ruined the device for this process, so that the worker can't continue."""
    notes: tuple[str, ...] = ()
    """Doubts about the variant's call, and the parameters of which it leaves nothing to be judged."""
    fact: Recognised | None = None
    """What trials have shown of its call; None where it was called in no dtype."""
    at_defaults: tuple[str, ...] = ()
    """Parameters of the function that keep their defaults in its calls."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """A variant can't be loaded, or is no softmax function at all."""

    message: str


class Started(msgspec.Struct, frozen=True, tag=True):
    """A variant is about to run on a case or in a trial, and is to blame if the worker dies now."""

    variant: str


class Measured(msgspec.Struct, frozen=True, tag=True):
    """A variant's judged result on a case. If it is ``fatal``, the worker can't continue after it."""

    result: Measurement
    seconds: float
    fatal: bool = False


class Timed(msgspec.Struct, frozen=True, tag=True):
    """The measurements on one shape."""

    samples: ShapeSamples


class ProbePlanned(msgspec.Struct, frozen=True, tag=True):
    """Labels of a probe's trials, in order."""

    labels: tuple[str, ...]
    calls: tuple[str, ...] = ()
    """Words for what the trials would do, if it is asked for."""


class TrialDone(msgspec.Struct, frozen=True, tag=True):
    """A trial's outcome. If it is ``fatal``, the worker can't continue after it."""

    result: Outcome

    @property
    def fatal(self) -> bool:
        """As ``Measured.fatal``."""
        return self.result.fatal


class Probed(msgspec.Struct, frozen=True, tag=True):
    """The probe's conclusion."""

    conclusion: Conclusion


class WidthTried(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Seconds that a width's kernels took to compile; None if unknown. If ``fatal``, the worker can't continue."""

    seconds: float | None
    of_compiler: bool = True
    """False if nothing showed a compilation, and the first call was only slower than the second by these seconds."""
    fatal: bool = False


class OrdersCompared(msgspec.Struct, frozen=True, tag=True):
    """The number of sampled rows, and the first whose answer depends on order or place; None if there is none."""

    rows: int
    difference: str | None


class Traced(msgspec.Struct, frozen=True, tag=True):
    """The steps of the rows, or the reason why there are none."""

    rows: tuple[TracedRow, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str | None = None
    has_kernel: bool = True
    """False if the variant launches no Triton kernel."""


class Done(msgspec.Struct, frozen=True, tag=True):
    """The request is finished."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The request could not be carried out, or the device not be opened, for a reason that is no variant's fault."""

    message: str
    for_memory: bool = False
    """True if the device had no room for the input."""


Reply = (
    Ready
    | Declared
    | Trying
    | Loaded
    | Refused
    | Started
    | Measured
    | Timed
    | ProbePlanned
    | TrialDone
    | Probed
    | WidthTried
    | OrdersCompared
    | Traced
    | Done
    | Failed
)

LAST = (Done, Timed, Loaded, Refused, Probed, WidthTried, OrdersCompared, Traced, Failed)
"""Replies that end a request."""


def is_fatal(reply: Reply) -> bool:
    """True if the worker's process can't continue after a reply, which is then its last."""
    return isinstance(reply, Measured | Loaded | WidthTried | TrialDone) and reply.fatal


encode_request = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
encode_reply = msgspec.msgpack.Encoder().encode
decode_reply = msgspec.msgpack.Decoder(Reply).decode
