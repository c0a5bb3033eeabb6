"""One whole check: load the variants, run cases and probes, search with generated cases, time. Imports no torch."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from softcheck.cases.case import Case
from softcheck.contract import Violation
from softcheck.errors import SoftcheckError
from softcheck.run.every_pair import EveryPair, wanted
from softcheck.run.exhaust import Exhausted
from softcheck.run.generate import Generated, generate
from softcheck.run.patience import Over
from softcheck.run.plan import left_out, plan
from softcheck.run.probing import ProbeResult, ProbeTask, run_probes
from softcheck.run.process import DeviceChoice
from softcheck.run.protocol import Ready
from softcheck.run.record import Asked, Keeping, Record, Search, digest_of, header_of
from softcheck.run.session import Result, Session
from softcheck.speed.samples import ShapeSamples
from softcheck.speed.shapes import DEFAULT
from softcheck.variants.declaration import Backend, Declaration

TIMED_SHAPE = DEFAULT[0]
"""Rows and columns of the timed input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to check. ``cases`` are already selected; ``whole_corpus`` says that no edge case was left out of them."""

    variants: tuple[str, ...]
    dtypes: tuple[str, ...]
    cases: tuple[Case, ...]
    whole_corpus: bool
    probes: tuple[str, ...] = ()
    quick: bool = False
    """Whether probes keep to the few trials that show most."""
    device: DeviceChoice = "auto"
    jobs: int | None = None
    seed: int = 0
    generate: int = 0
    exhaustive: bool = False
    """Whether every pair of a 16-bit dtype's patterns is judged too, on a GPU."""
    speed: bool = True
    seconds_per_call: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """A variant that was called no more in one dtype, and what was not run for that."""

    variant: str
    dtype: str
    over: Over
    cases: tuple[Case, ...]
    probes: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Run:
    """Everything measured, as it came."""

    options: Options
    ready: Ready
    declarations: dict[str, Declaration] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """Variants that can't be judged at all, with the reason."""
    results: list[Result] = field(default_factory=list)
    probed: list[ProbeResult] = field(default_factory=list)
    exhausted: list[Exhausted] = field(default_factory=list)
    generated: list[Generated] = field(default_factory=list)
    given_up: list[GivenUp] = field(default_factory=list)
    speeds: list[ShapeSamples] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Cases that could not be made or placed, and probes that could not be carried out, with the reason."""
    notes: list[str] = field(default_factory=list)
    stages: dict[str, float] = field(default_factory=dict)
    """Wall seconds of each stage, in order."""
    interrupted: bool = False
    is_complete: bool = False
    """Whether every stage came to its end."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Events:
    """What a caller may watch: a stage's name when it begins, and (done, total) within it."""

    stage: Callable[[str], None] = lambda _: None
    progress: Callable[[int, int], None] = lambda _done, _total: None


class _Stages:
    """Wall seconds by stage, as their names come by."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._now: tuple[str, float] | None = None

    def noting(self, stage: Callable[[str], None]) -> Callable[[str], None]:
        """The same callback, and the time between its calls."""

        def note(name: str) -> None:
            self.end()
            self._now = (name, time.monotonic())
            stage(name)

        return note

    def end(self) -> None:
        """Ends the stage that is under way, if any."""
        if self._now is not None:
            name, begun = self._now
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begun
            self._now = None


def check(options: Options, events: Events | None = None, keeping: Keeping | None = None) -> Run:
    """Runs everything that the options ask for. Ctrl-C ends it early and returns what was measured, ``interrupted``.

    ``keeping`` names a journal, which is removed after a complete run. Raises NothingRunError where the device that was
    asked for is missing, and UsageError where the journal can't be written or gone on with.
    """
    events = Events() if events is None else events
    begun = time.monotonic()
    stages = _Stages()
    events = Events(stages.noting(events.stage), events.progress)
    events.stage("starting")
    session = Session(options.device, jobs=options.jobs, seconds_per_call=options.seconds_per_call)
    run = Run(options=options, ready=session.ready, stages=stages.seconds)
    try:
        record = _open(options, session, keeping)
    except SoftcheckError:
        session.close()
        raise
    pairs: EveryPair | None = None
    try:
        _load(session, run, events)
        pairs = _begin_pairs(session, run, record)
        _run_cases(session, run, events, record)
        _run_probes(session, run, events, record, pairs)
        _generate(session, run, events, record)
        _note_given_up(session, run)
        _time(session, run, events, record)
        run.is_complete = True
    except KeyboardInterrupt:
        # From here on the report is drawn and written; a second Ctrl-C, or timeout's to the whole group, must not stop it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        run.interrupted = True
        run.notes.append("interrupted: the figures are of what had been measured by then")
    except SoftcheckError as error:
        run.errors.append(str(error))
    finally:
        session.close()
        if pairs is not None:
            found, errors = pairs.end()
            run.exhausted.extend(found)
            run.errors.extend(errors)
        stages.end()
        record.close(is_complete=run.is_complete)
        _sort(run)
        run.seconds = time.monotonic() - begun
    return run


def unexplained(violation: Violation, case_id: str, dtype: str, declaration: Declaration, backend: Backend) -> bool:
    """Whether no declared defect accounts for a violation."""
    return explanation(violation, case_id, dtype, declaration, backend) is None


def explanation(
    violation: Violation, case_id: str, dtype: str, declaration: Declaration, backend: Backend
) -> str | None:
    """The reason of the declared defect that accounts for a violation, or None."""
    for defect in declaration.known_defects:
        if defect.applies(dtype, backend) and defect.explains(violation, case_id):
            return defect.reason
    return None


def _open(options: Options, session: Session, keeping: Keeping | None) -> Record:
    """The run's record; what timed out before a kill counts on."""
    if keeping is None:
        return Record(None, None)
    asked = Asked(
        variants=options.variants,
        dtypes=options.dtypes,
        cases=digest_of(options.cases),
        whole_corpus=options.whole_corpus,
        probes=options.probes,
        quick=options.quick,
        seed=options.seed,
        generate=options.generate,
        exhaustive=options.exhaustive,
        speed=options.speed,
        seconds_per_call=options.seconds_per_call,
    )
    record = Record(keeping, header_of(asked, session.ready, keeping), options.cases)
    record.remind(session.patience)
    return record


def _sort(run: Run) -> None:
    """Into an order that does not depend on which worker was faster, so that neither do sums and witnesses."""
    variants = {name: position for position, name in enumerate(run.options.variants)}
    probes = {name: position for position, name in enumerate(run.options.probes)}
    dtypes = {name: position for position, name in enumerate(run.options.dtypes)}
    run.results.sort(key=lambda r: (variants[r.variant], r.case.id))
    run.probed.sort(key=lambda p: (probes[p.task.probe], variants[p.task.variant], dtypes[p.task.dtype]))
    run.errors.sort()


def _load(session: Session, run: Run, events: Events) -> None:
    events.stage("loading variants")
    for done, spec in enumerate(run.options.variants, start=1):
        loaded = session.load(spec, run.options.dtypes)
        if isinstance(loaded, str):
            run.refused[spec] = loaded
        else:
            run.declarations[spec] = loaded
        events.progress(done, len(run.options.variants))


def _run_cases(session: Session, run: Run, events: Events, record: Record) -> None:
    planned = plan(run.options.cases, run.declarations, run.options.dtypes)
    run.notes.extend(planned.notes)
    events.stage("running cases")
    kept = record.results
    run.results.extend(kept.values())
    left = [(case, [name for name in names if (name, case.id) not in kept]) for case, names in planned.tasks]
    scouts, others = left[: planned.scouts], left[planned.scouts :]
    first, total = 0, sum(bool(names) for _, names in left)

    def keep(result: Result) -> None:
        record.add_result(result)
        run.results.append(result)

    def count(number: int, _total: int) -> None:
        events.progress(first + number, total)

    for part in (scouts, others):
        run.errors.extend(session.run(part, keep, count))
        first += sum(bool(names) for _, names in part)


def _run_probes(session: Session, run: Run, events: Events, record: Record, pairs: EveryPair | None) -> None:
    """Every probe; the pairs are at their end before those that need a GPU to themselves, and when this returns."""
    tasks = [
        ProbeTask(variant=name, dtype=dtype, probe=probe, quick=run.options.quick, seed=run.options.seed)
        for name, declaration in run.declarations.items()
        for dtype in run.options.dtypes
        if dtype in declaration.dtypes
        for probe in run.options.probes
    ]
    if not tasks:
        _wait_for_pairs(pairs, events)
        return
    events.stage("running probes")
    run.probed.extend(record.probed.values())
    left = [task for task in tasks if task not in record.probed]

    def keep(result: ProbeResult) -> None:
        record.add_probed(result)
        run.probed.append(result)

    def before_exclusive() -> None:
        if pairs is not None:
            _wait_for_pairs(pairs, events)
            events.stage("running probes")

    errors = run_probes(
        session,
        left,
        keep,
        events.progress,
        done=record.outcomes,
        on_outcome=record.add_outcome,
        before_exclusive=before_exclusive,
    )
    run.errors.extend(errors)


def _begin_pairs(session: Session, run: Run, record: Record) -> EveryPair | None:
    """Sets out on the pairs of the 16-bit dtypes; None where there are none to judge or no GPU."""
    todo = wanted(run.declarations, run.options.dtypes)
    if not run.options.exhaustive or not todo:
        return None
    if run.ready.backend != "cuda":
        run.notes.append(
            "not every pair of 16-bit patterns is judged: that needs a GPU; see softcheck exhaust for a part"
        )
        return None
    return EveryPair(session, todo, record)


def _wait_for_pairs(pairs: EveryPair | None, events: Events) -> None:
    if pairs is not None:
        events.stage("judging every pair of 16-bit patterns")
        pairs.wait(events.progress)


def _note_given_up(session: Session, run: Run) -> None:
    measured = {(result.variant, result.case.id) for result in run.results}
    probed = {(p.task.variant, p.task.dtype, p.task.probe) for p in run.probed}
    for name, declaration in run.declarations.items():
        for dtype in run.options.dtypes:
            over = session.patience.over(name, dtype) if dtype in declaration.dtypes else None
            if over is None:
                continue
            cases = [case for case in run.options.cases if case.dtype == dtype and left_out(case, declaration) is None]
            found = GivenUp(
                variant=name,
                dtype=dtype,
                over=over,
                cases=tuple(case for case in cases if (name, case.id) not in measured),
                probes=tuple(probe for probe in run.options.probes if (name, dtype, probe) not in probed),
            )
            if found.cases or found.probes:
                run.given_up.append(found)


def _generate(session: Session, run: Run, events: Events, record: Record) -> None:
    if run.options.generate == 0:
        return
    events.stage("searching with generated cases")
    searches = [
        (name, declaration, dtype)
        for name, declaration in run.declarations.items()
        for dtype in run.options.dtypes
        if dtype in declaration.dtypes and session.patience.over(name, dtype) is None
    ]
    for done, (name, declaration, dtype) in enumerate(searches, start=1):
        kept = record.searches.get((name, dtype))
        if kept is not None:
            run.generated.append(kept.generated)
            run.results.extend(kept.results)
            continue
        before = len(run.results)

        def is_failure(result: Result, dtype: str = dtype, declaration: Declaration = declaration) -> bool:
            return any(
                unexplained(violation, result.case.id, dtype, declaration, run.ready.backend)
                for violation in result.measurement.violations
            )

        found = generate(
            session,
            name,
            dtype,
            examples=run.options.generate,
            seed=run.options.seed,
            declaration=declaration,
            is_failure=is_failure,
            on_result=run.results.append,
        )
        run.generated.append(found)
        if found.failure is not None:
            run.results.append(found.failure)
        record.add_search(Search(found, tuple(run.results[before:])))
        events.progress(done, len(searches))


def _time(session: Session, run: Run, events: Events, record: Record) -> None:
    if run.ready.backend != "cuda" or not run.options.speed:
        return
    events.stage("timing")
    for done, dtype in enumerate(run.options.dtypes, start=1):
        able = [
            name
            for name, declaration in run.declarations.items()
            if dtype in declaration.dtypes and (declaration.column_limit(dtype) or TIMED_SHAPE[1]) >= TIMED_SHAPE[1]
        ]
        over = {name: found.why for name in able if (found := session.patience.over(name, dtype)) is not None}
        run.notes.extend(f"{name}, {dtype}: not timed: given up: {why}" for name, why in over.items())
        names = [name for name in able if name not in over]
        if dtype in record.speeds:
            run.speeds.append(record.speeds[dtype])
        elif names:
            speeds = session.time(names, dtype, TIMED_SHAPE, seed=run.options.seed)
            if isinstance(speeds, str):
                run.notes.append(f"{dtype}: no speed: {speeds}")
            else:
                record.add_speeds(speeds)
                run.speeds.append(speeds)
        events.progress(done, len(run.options.dtypes))
