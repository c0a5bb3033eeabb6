"""Results of trials and probes, in a form that travels between processes and to disk. Imports no torch."""

from collections.abc import Iterable
from functools import reduce

import msgspec

from softcheck.contract import FindingKind, Violation
from softcheck.facts import Where
from softcheck.operations.arithmetic import Arithmetic
from softcheck.toolchain.ptx import ObservedArithmetic
from softcheck.variants.coverage import Arc, Branch, CodeLine, Line, never_run, one_sided

NOTHING_TO_TRY = "nothing to try: "
"""Begins the reason of a trial that no variant of this kind has; every other reason names a trial that was left out."""


class KernelArithmetic(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A variant's arithmetic in one dtype, as the PTX of its Triton kernels shows it and as it is declared."""

    declared: Arithmetic | None = None
    kernels: tuple[str, ...] = ()
    """Names of the kernels that were read; none if the variant launches none itself."""
    target: str | None = None
    """The target that the kernels were compiled for: the GPU that they ran on, or the target of a compilation ahead of
    time."""
    observed: ObservedArithmetic | None = None
    shown: Arithmetic | None = None
    """The model that the PTX shows; None if no proven bound covers it."""
    weaknesses: tuple[str, ...] = ()
    """Points in which the arithmetic is weaker than the standard contract, in words."""
    leaves_contract: str | None = None
    """The place where the bound of the variant's own model, declared or else shown, leaves the standard contract, in
    words."""


class RandomRows(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The extent of rows that were drawn at random and judged."""

    elements: int = 0
    rows: int = 0
    widths: tuple[int, ...] = ()
    """Numbers of columns, ascending."""
    patterns: int = 0
    """Bit patterns that stood where their shares show."""

    def plus(self, other: "RandomRows") -> "RandomRows":
        """Both together."""
        return RandomRows(
            elements=self.elements + other.elements,
            rows=self.rows + other.rows,
            widths=tuple(sorted({*self.widths, *other.widths})),
            patterns=self.patterns + other.patterns,
        )

    @staticmethod
    def total(parts: "Iterable[RandomRows | None]") -> "RandomRows | None":
        """All parts together; None if none drew any rows."""
        drawn = [part for part in parts if part is not None]
        return reduce(RandomRows.plus, drawn) if drawn else None


class SeenRegime(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A regime of a variant: shapes on which its calls launch the same kernels and run the same lines."""

    words: str
    """The regime's shapes among all that were explored, as a predicate."""
    where: Where | None = None
    """The same predicate; null in reports that were saved without it."""
    launches: tuple[str, ...] = ()
    """The kernels with their compile-time constants; none if calls launch no Triton kernel themselves."""
    paths: tuple[str, ...] = ()
    """Names of the paths that belong to it."""
    narrowest: tuple[int, int] = (0, 0)
    """Rows and columns of its smallest explored shape."""
    shapes: int = 0
    """Shapes that were judged in it."""
    rows: int = 0
    """Rows of these shapes."""
    elements: int = 0
    """Elements of these shapes."""


class Coverage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Lines of a variant's own functions that calls have run."""

    lines: int
    run: int
    never: tuple[str, ...] = ()
    """Words for the other lines, each with the condition that leads there."""
    of_all_calls: bool = False
    """True if all calls of a report count, and not the probe regimes' alone."""
    conditions: int = 0
    """Conditions of ``if`` and ``while`` that lines can tell apart; on a GPU those outside of kernels."""
    both_ways: int = 0
    """Conditions that came out true and false."""
    one_sided: tuple[str, ...] = ()
    """Words for conditions that were never false; of others that came out one way, ``never`` tells the lines."""

    @property
    def percent(self) -> float:
        """Share of the lines that were run; 100 if there are none."""
        return 100.0 * self.run / self.lines if self.lines else 100.0


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The outcome of one trial. It is small, since it crosses a pipe and is journalled."""

    violations: tuple[Violation, ...] = ()
    skipped: str | None = None
    """The reason why the trial could not be made here, e.g. too little memory."""
    properties: dict[str, bool] = {}
    """Properties that are reported without being promised, e.g. ``batch_invariant``; True if this trial showed it."""
    varied: tuple[str, ...] = ()
    """Options of the function, and parameters of the operation, that had other values than usual in calls that were judged."""
    fatal: bool = False
    """True if the process can't continue after the trial: it ended, or its device can't be used any more."""
    note: str | None = None
    """A remark on what the trial saw and nobody promises."""
    tried: tuple[tuple[int, int], ...] = ()
    """Rows and columns of each shape that was judged, once."""
    failing: dict[FindingKind, tuple[tuple[int, int], ...]] = {}
    """Shapes that broke a promise, by kind; ``violations`` holds each kind at the shape of fewest elements."""
    paths: tuple[str, ...] = ()
    """The name of each shape's path, "" if it is unknown; none if nothing was explored."""
    regimes: tuple[SeenRegime, ...] = ()
    """Regimes that the trial found."""
    code: tuple[CodeLine, ...] = ()
    """Lines of the variant's own code, from the trial that looked for regimes."""
    branches: tuple[Branch, ...] = ()
    """Conditions of the variant's own code, from the same trial."""
    lines: tuple[Line, ...] = ()
    """Files and numbers of lines that calls ran: the trial's, and the variant's others in the process before it."""
    arcs: tuple[Arc, ...] = ()
    """Ways on from conditions that the trial's calls took, where it looked."""
    counts_all_calls: bool = False
    """True if every call's lines are counted, as from Python 3.12 on; set by the trial that looked for regimes."""
    is_cut: bool = False
    """True if the trial's budget, or the device's memory, left out some of its calls or all of them."""
    arithmetic: KernelArithmetic | None = None
    """The arithmetic of the kernels that the trial called, if it read them."""
    sampled: RandomRows | None = None
    """The extent of random rows, if the trial drew them."""
    ways: tuple[str, ...] = ()
    """The circumstances of each violation, as ``softcheck.probes.space`` writes them; none where the trial's label says them."""
    witnesses: dict[FindingKind, str] = {}
    """Bits of a row that alone breaks the promise, by kind, as ``corpus add`` takes them."""


class Shown(msgspec.Struct, frozen=True, omit_defaults=True):
    """A broken promise and the trial, by label, that shows it best."""

    label: str
    violation: Violation
    witness: str | None = None
    """Bits of a row that alone breaks the promise, if one is known."""
    trial: str | None = None
    """The trial's own label, where ``label`` names one call of several that the trial made."""


class Conclusion(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A probe's conclusion on one variant in one dtype."""

    findings: tuple[Shown, ...] = ()
    trials: int = 0
    """Trials that were made."""
    planned: int = 0
    """Trials that were planned, but for those that had nothing to try."""
    cut: int = 0
    """Trials of these that were not made in full for want of time or memory, or since the variant was given up."""
    skipped: tuple[str, ...] = ()
    """Reasons of the trials that were not made, each once."""
    notes: tuple[str, ...] = ()
    """Remarks of the trials on what nobody promises, each once."""
    varied: tuple[str, ...] = ()
    """Options and parameters that had other values than usual in some trial's judged calls."""
    properties: dict[str, bool] = {}
    """True for each property that was shown by every trial that looked for it."""
    arithmetic: KernelArithmetic | None = None
    """The arithmetic of the variant's kernels, from all trials together."""
    sampled: RandomRows | None = None
    """The extent of random rows of all trials together; None if none drew any."""
    regimes: tuple[SeenRegime, ...] = ()
    """The variant's regimes, those of the smallest shapes first."""
    code: tuple[CodeLine, ...] = ()
    """Lines of the variant's own code; none if the probe did not look, or the source is unknown."""
    branches: tuple[Branch, ...] = ()
    """Conditions of the variant's own code."""
    lines: tuple[Line, ...] = ()
    """Files and numbers of lines that the trials' calls ran."""
    arcs: tuple[Arc, ...] = ()
    """Ways on from conditions that the trials' calls took."""
    counts_all_calls: bool = False
    """True if every call's lines are counted."""
    tried: tuple[tuple[int, int], ...] = ()
    """Rows and columns of each shape that a probe over shapes judged."""
    failing: dict[FindingKind, tuple[tuple[int, int], ...]] = {}
    """Shapes that broke a promise, by kind."""


def coverage_of(conclusions: Iterable[Conclusion]) -> Coverage | None:
    """The coverage by all probes of one variant in one dtype; None if none knows the lines of its code."""
    known = list(conclusions)
    of_code = next((each for each in known if each.code), None)
    if of_code is None:
        return None
    code, branches = of_code.code, of_code.branches
    run = {line for each in known for line in each.lines}
    arcs = {arc for each in known for arc in each.arcs}
    return Coverage(
        lines=len(code),
        run=sum((line.file, line.line) in run for line in code),
        never=tuple(never_run(code, run, branches)),
        of_all_calls=any(each.counts_all_calls for each in known),
        conditions=len(branches),
        both_ways=sum(branch.was_true(run) and branch.was_false(run, arcs) for branch in branches),
        one_sided=tuple(one_sided(branches, run, arcs)),
    )
