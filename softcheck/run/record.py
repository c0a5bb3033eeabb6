"""Measurements of a report's run, journalled as they are made, and read again by ``--resume``."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec

from softcheck import __version__
from softcheck.cases.case import Case
from softcheck.errors import UsageError
from softcheck.judge.measurement import Measurement
from softcheck.probes.outcome import Outcome
from softcheck.run.blames import Blame
from softcheck.run.exhaust import Exhausted
from softcheck.run.generate import Generated
from softcheck.run.journal import Journal, RunHeader, fingerprints, refusal
from softcheck.run.model import RunOptions
from softcheck.run.patience import Patience
from softcheck.run.probing import ProbeResult
from softcheck.run.protocol import ProbeTask, Ready
from softcheck.run.session import CaseMeasurement
from softcheck.run.widths import WidthLimit
from softcheck.speed.samples import ShapeSamples
from softcheck.variants.recognised import Recognised


class SearchRecord(msgspec.Struct, frozen=True):
    """A finished search and the examples that it judged."""

    generated: Generated
    results: tuple[CaseMeasurement, ...]


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One entry of a journal, in one of these fields."""

    result: tuple[str, str, Measurement, float] | None = None
    """Variant, id of a saved case, measurement, seconds."""
    outcome: tuple[ProbeTask, int, Outcome] | None = None
    """A trial's outcome, with the trial's index."""
    probed: ProbeResult | None = None
    exhausted: Exhausted | None = None
    search: SearchRecord | None = None
    """A search that was cut short is not kept: it is repeated from its seed."""
    speeds: ShapeSamples | None = None
    blame: tuple[str, str, Blame] | None = None
    """The variant and dtype that crashed, and the cause; it takes the place of the cause kept before."""
    width_limit: WidthLimit | None = None
    fact: tuple[str, Recognised] | None = None
    """A variant, and what trials have shown of its call: the run that goes on judges the same call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Location and settings of a run's journal."""

    path: Path
    resume: bool = False
    settings: dict[str, Any] = field(default_factory=dict)


class Record:
    """Measurements of this run and, if it resumes a journal, of the run before."""

    def __init__(self, keeping: Keeping | None, header: RunHeader | None, cases: tuple[Case, ...] = ()) -> None:
        """Opens the journal. Raises UsageError if the journal can't be written or belongs to another run."""
        self._journal: Journal[RunHeader, Kept] | None = None
        if keeping is not None and header is not None:
            self._journal = Journal(keeping.path, header, Kept, resume=keeping.resume, refusal=refusal)
        kept = [] if self._journal is None else self._journal.entries
        try:
            self.results = _results(kept, {case.id: case for case in cases})
            """Results by variant and case id."""
            self.facts = _facts(kept)
            """What trials have shown of the variants' calls, by name."""
        except UsageError:
            self.close(is_complete=False)
            raise
        self.outcomes = _outcomes(kept)
        self.probed = {each.probed.task: each.probed for each in kept if each.probed}
        self.exhausted = {(e.exhausted.variant, e.exhausted.domain.dtype): e.exhausted for e in kept if e.exhausted}
        """Results by variant and dtype."""
        self.searches = {(e.search.generated.variant, e.search.generated.dtype): e.search for e in kept if e.search}
        """Searches by variant and dtype."""
        speeds = [each.speeds for each in kept if each.speeds]
        self.speeds = {(s.dtype, (s.rows, s.columns), tuple(one.name for one in s.variants)): s for s in speeds}
        """Samples by dtype, shape and variants."""
        self.blames = {each.blame[:2]: each.blame[2] for each in kept if each.blame}
        """Blames by the variant and dtype that crashed."""
        self.width_limits = [each.width_limit for each in kept if each.width_limit]

    def remind(self, patience: Patience) -> None:
        """Counts the earlier run's deaths of workers, timeouts and answers again."""
        for judged in self.exhausted.values():
            # These come first, since they begin beside the first cases; the parts before a failed part gave answers.
            dtype, measurement = judged.domain.dtype, judged.measurement
            for violations in ((), measurement.violations) if measurement.elements else (measurement.violations,):
                patience.count(judged.variant, dtype, violations)
        for result in self.results.values():
            patience.count(result.variant, result.case.dtype, result.measurement.violations)
        for task, outcomes in self.outcomes.items():
            for outcome in outcomes:
                if outcome.skipped is None:
                    patience.count(task.variant, task.dtype, outcome.violations if outcome.fatal else ())
        for search in self.searches.values():
            for result in search.results:
                patience.count(result.variant, result.case.dtype, result.measurement.violations)

    def add_result(self, result: CaseMeasurement) -> None:
        """Keeps a measurement on a saved case."""
        self.add(Kept(result=(result.variant, result.case.id, result.measurement, result.seconds)))

    def add(self, kept: Kept) -> None:
        """Writes an entry to the journal, if there is one. Any thread may call it."""
        if self._journal is not None:
            self._journal.add(kept)

    def close(self, *, is_complete: bool) -> None:
        """Closes the journal, and removes it after a complete run."""
        if self._journal is not None:
            self._journal.close()
            if is_complete:
                self._journal.path.unlink(missing_ok=True)


def _results(kept: Sequence[Kept], cases: dict[str, Case]) -> dict[tuple[str, str], CaseMeasurement]:
    found = {}
    for variant, case_id, measurement, seconds in (each.result for each in kept if each.result):
        if case_id not in cases:
            raise UsageError(f"the journal holds a result on {case_id!r}, which is no case of this run")
        found[variant, case_id] = CaseMeasurement(variant, cases[case_id], measurement, seconds)
    return found


def _facts(kept: Sequence[Kept]) -> dict[str, Recognised]:
    """Raises UsageError where the journal says two calls of one variant: its results are then of two functions."""
    found: dict[str, Recognised] = {}
    for variant, fact in (each.fact for each in kept if each.fact):
        if found.setdefault(variant, fact) != fact:
            raise UsageError(
                f"the journal says that {variant} is {found[variant].in_words()}, and that it is {fact.in_words()}"
            )
    return found


def _outcomes(kept: Sequence[Kept]) -> dict[ProbeTask, list[Outcome]]:
    """The outcomes of each task's trials from the first on. A trial made again, as by another worker, counts once."""
    found: dict[ProbeTask, list[Outcome]] = {}
    for task, index, outcome in (each.outcome for each in kept if each.outcome):
        outcomes = found.setdefault(task, [])
        if index == len(outcomes):
            outcomes.append(outcome)
    return found


_OF_THE_REPORT = {"device", "jobs", "strict_declarations", "require_coverage", "require_all_sizes"}
"""Options that change no figure. The device itself is compared."""


def header_of(options: RunOptions, ready: Ready, keeping: Keeping) -> RunHeader:
    """The header of a run's journal."""
    named = "\n".join(f"{case.id} {case.digest}" for case in options.cases)
    asked = {each.name: getattr(options, each.name) for each in fields(options) if each.name not in _OF_THE_REPORT}
    return RunHeader(
        softcheck=__version__,
        ready=ready,
        # As they are read again, which knows no tuples.
        asked=json.loads(json.dumps(asked | {"cases": hashlib.sha256(named.encode()).hexdigest()[:16]})),
        sources=fingerprints(options.variants),
        settings=keeping.settings,
    )
