"""Stages of a check that keep every worker busy: loading variants, then cases and probes. Imports no torch."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softcheck.cases.case import Case
from softcheck.contract import FindingKind, Violation
from softcheck.probes.outcome import Outcome
from softcheck.probes.registry import LONG
from softcheck.run.every_pair import AT_ONCE, pairs_job, wanted
from softcheck.run.exhaust import Exhausted
from softcheck.run.model import Events, FirstFinding, Run, RunOptions, Standing
from softcheck.run.patience import Over
from softcheck.run.plan import covered, left_out, plan, scouts
from softcheck.run.pool import Job, Lane, spread
from softcheck.run.probing import (
    ProbeResult,
    is_exclusive,
    is_heavy,
    needs_the_device,
    probe_job,
    time_share,
)
from softcheck.run.protocol import ProbeTask
from softcheck.run.record import Kept, Record
from softcheck.run.session import CaseMeasurement, Session
from softcheck.variants.declaration import Declaration

SLOW = 3.0
"""Seconds of a variant's first call in a process (imports, torch.compile) beyond which the variant gets dedicated
workers, at most half the pool. Any other worker would have to make that slow first call too."""


_HEAVY_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The result of loading a variant: declaration or refusal, and its dedicated workers if it has any."""

    spec: str
    found: Declaration | str
    is_slow: bool
    apart: Session | None


def load(session: Session, run: Run, events: Events, record: Record) -> dict[str, Session]:
    """Loads all variants and runs each one's scouts, which show whether it can be called before it costs more workers.

    Returns the session with the dedicated workers for each variant that has them. At most half of the workers are dedicated.
    """
    events.stage("loading variants")
    specs = run.options.variants
    run.results.extend(record.results.values())
    apart: dict[str, Session] = {}

    def deliver(item: _Loaded | CaseMeasurement) -> None:
        if isinstance(item, CaseMeasurement):
            _keep(item, run, record, standings)
        elif isinstance(item.found, str):
            run.refused[item.spec] = item.found
        else:
            run.declarations[item.spec] = item.found
            if item.apart is not None:
                apart[item.spec] = item.apart
            if item.is_slow:
                session.slow.add(item.spec)
            for dtype in (d for d in run.options.dtypes if d in item.found.dtypes):
                if (over := session.patience.over(item.spec, dtype)) is not None:
                    standings.add_given_up(item.spec, dtype, over)

    standings = Standings(run, events)
    places = threading.Semaphore(session.jobs // 2)
    try:
        jobs = [_loading(session, spec, run, record, places) for spec in specs]
        run.errors.extend(spread(session, [Lane(jobs, session.jobs)], deliver, events.progress))
    finally:
        # Restores the order in which the variants were named, whichever was ready first.
        run.declarations = {spec: run.declarations[spec] for spec in specs if spec in run.declarations}
        run.refused = {spec: run.refused[spec] for spec in specs if spec in run.refused}
    return apart


class Standings:
    """Reports the verdicts so far, and the first finding of each kind.

    A refusal is not yet counted as a finding, since it may turn out to be a size limit.
    """

    def __init__(self, run: Run, events: Events) -> None:
        """Takes note of what there is already, and tells nothing of it."""
        self._run = run
        self._events = events
        self._found: dict[tuple[str, str], tuple[int, dict[FindingKind, None]]] = {}
        for result in run.results:
            self._count(result.variant, result.case.dtype, _of_result(result))
        for probed in run.probed:
            self._count(probed.task.variant, probed.task.dtype, _of_probe(probed))

    def add_result(self, result: CaseMeasurement) -> None:
        """Tells what a result changes."""
        self._add(result.variant, result.case.dtype, _of_result(result), result.case)

    def add_probed(self, probed: ProbeResult) -> None:
        """Tells what a probe's result changes."""
        self._add(probed.task.variant, probed.task.dtype, _of_probe(probed), probed.task)

    def add_given_up(self, variant: str, dtype: str, over: Over) -> None:
        """Tells that a variant was given up before its first case; the case, or else the probe, is the first that is left out."""
        options = self._run.options
        cases = covered(options.cases, self._run.declarations[variant], dtype)
        if cases:
            self._add(variant, dtype, [(cases[0].id, Violation(*over))], cases[0])
        elif options.probes:
            task = ProbeTask(
                variant=variant, dtype=dtype, probe=options.probes[0], effort=options.effort, seed=options.seed
            )
            self._add(variant, dtype, [(f"probe/{task.probe}", Violation(*over))], task)

    def _add(self, variant: str, dtype: str, shown: Sequence[tuple[str, Violation]], made_by: Case | ProbeTask) -> None:
        for kind, where in self._count(variant, dtype, shown):
            self._events.found(
                FirstFinding(
                    variant=variant,
                    dtype=dtype,
                    kind=kind,
                    where=where,
                    made_by=made_by,
                    backend=self._run.ready.backend,
                    seconds_per_call=self._run.options.seconds_per_call,
                )
            )
        count, kinds = self._found[variant, dtype]
        self._events.standing(Standing(variant=variant, dtype=dtype, results=count, kinds=tuple(map(str, kinds))))

    def _count(self, variant: str, dtype: str, shown: Sequence[tuple[str, Violation]]) -> list[tuple[FindingKind, str]]:
        """The kinds that are new, each with the case that shows it."""
        count, kinds = self._found.get((variant, dtype), (0, {}))
        declaration, backend = self._run.declarations.get(variant, Declaration()), self._run.ready.backend
        new: list[tuple[FindingKind, str]] = []
        for case_id, violation in shown:
            is_known = declaration.explanation(violation, case_id, dtype, backend) is not None
            if violation.refusal is None and not is_known and violation.kind not in kinds:
                kinds[violation.kind] = None
                new.append((violation.kind, case_id))
        self._found[variant, dtype] = count + 1, kinds
        return new


def _keep(item: CaseMeasurement | Exhausted, run: Run, record: Record, standings: Standings) -> None:
    if isinstance(item, CaseMeasurement):
        record.add_result(item)
        run.results.append(item)
        standings.add_result(item)
    else:
        run.exhausted.append(item)
        if item.ended is None:
            record.add(Kept(exhausted=item))


def _of_result(result: CaseMeasurement) -> list[tuple[str, Violation]]:
    return [(result.case.id, violation) for violation in result.measurement.violations]


def _of_probe(probed: ProbeResult) -> list[tuple[str, Violation]]:
    return [(probed.case_id(shown.label), shown.violation) for shown in probed.conclusion.findings]


def _loading(
    session: Session, spec: str, run: Run, record: Record, places: threading.Semaphore
) -> Job[_Loaded | CaseMeasurement]:
    def work(emit: Callable[[_Loaded | CaseMeasurement], None]) -> None:
        # The scouts use what the first call has prepared in this process.
        own = session.apart()
        seconds: list[float] = []
        found = own.load(spec, run.options.dtypes, on_first_call=seconds.append)
        is_slow = max(seconds, default=0.0) > SLOW
        is_kept = is_slow and places.acquire(blocking=False)
        emit(_Loaded(spec, found, is_slow, own if is_kept else None))
        try:
            if isinstance(found, Declaration):
                for case in _first_cases(run.options, found):
                    done = [] if (spec, case.id) in record.results else own.run_case(case, [spec], on_result=emit)
                    if any(v.kind is FindingKind.TIMEOUT for result in done for v in result.measurement.violations):
                        # The other scouts don't wait for it; they run later, beside the other cases.
                        break
        finally:
            if not is_kept:
                own.rejoin()

    return Job(f"loading {spec}", work)


def _first_cases(options: RunOptions, declaration: Declaration) -> list[Case]:
    """Returns the scouts, or all cases in the given order if the run is ``in_order``."""
    if not options.in_order:
        return scouts(options.cases, declaration, options.dtypes)
    return [
        case
        for case in options.cases
        if case.dtype in options.dtypes and case.dtype in declaration.dtypes and left_out(case, declaration) is None
    ]


def cases_and_probes(session: Session, run: Run, events: Events, record: Record, *, apart: dict[str, Session]) -> None:
    """Runs every case and every probe, and judges all pairs, that have no result yet. Each variant of ``apart`` runs in its own session.

    Probes that need a GPU to themselves come last: nothing else then uses the device.
    """
    planned = plan(run.options.cases, run.declarations, run.options.dtypes)
    run.notes.extend(planned.notes)
    run.probed.extend(record.probed.values())
    measured = {(result.variant, result.case.id) for result in run.results}
    cases = [(case, [name for name in names if (name, case.id) not in measured]) for case, names in planned.tasks]
    tasks = [task for task in _probe_tasks(run) if task not in record.probed]
    alone = [task for task in tasks if needs_the_device(task, session.ready)]
    # Tried beside other jobs first, and once more alone if too little memory was left; no journal keeps their single trials.
    large = {task for task in tasks if is_exclusive(task, session.ready) and task not in alone}
    small = [task for task in tasks if not is_exclusive(task, session.ready)]
    heavy = [
        task
        for task in small
        if is_heavy(task, session.ready) and task.variant not in apart and not run.options.in_order
    ]
    done: dict[ProbeTask, Sequence[Outcome]] = {task: record.outcomes.get(task, ()) for task in tasks}

    standings = Standings(run, events)

    def is_given_up(task: ProbeTask) -> bool:
        return session.patience.over(task.variant, task.dtype) is not None

    def deliver(item: CaseMeasurement | ProbeResult | Exhausted) -> None:
        if isinstance(item, CaseMeasurement | Exhausted):
            _keep(item, run, record, standings)
        elif item.task in large and item.conclusion.cut and not (item.abandoned or is_given_up(item.task)):
            large.remove(item.task)
            alone.append(item.task)
        else:
            record.add(Kept(probed=item))
            run.probed.append(item)
            standings.add_probed(item)

    def lane(own: Session, names: Sequence[str], most: int) -> Lane[CaseMeasurement | ProbeResult | Exhausted]:
        shares = [(case, [name for name in takers if name in names]) for case, takers in cases]
        on_cases = [own.job(case, takers) for case, takers in shares if takers]
        mine = [task for task in small if task.variant in names and task not in heavy]
        probes = [(task.probe in LONG, _journalled(own, task, record, done[task])) for task in mine]
        if run.options.in_order:
            return Lane([*on_cases, *(job for _, job in probes)], most)
        # Long probes come first, so that none runs alone at the end while the other workers are idle.
        long, short = ([job for is_long, job in probes if is_long is wanted] for wanted in (True, False))
        return Lane([*long, *on_cases, *short], most)

    share = max(1, session.jobs // max(1, len(run.declarations)))
    lanes: list[Lane[CaseMeasurement | ProbeResult | Exhausted]] = [
        Lane(_pairs_jobs(session, run, record), AT_ONCE * session.places),
        *(lane(own, [name], share) for name, own in apart.items()),
        Lane(
            [_on_one_device(apart.get(t.variant, session), t, done[t], lambda *_: None) for t in large], session.places
        ),
        Lane([_journalled(session, task, record, done[task]) for task in heavy], _HEAVY_AT_ONCE * session.places),
        lane(
            session, [name for name in run.declarations if name not in apart], max(1, session.jobs - share * len(apart))
        ),
    ]
    if any(each.jobs for each in lanes):
        events.stage("running cases and probes")
    run.errors.extend(spread(session, lanes, deliver, events.progress))
    for own in apart.values():
        own.rejoin()
    if alone:
        events.stage("running probes that need the GPU alone")
        # An idle context costs memory.
        session.retire_idle()
        jobs = [_on_one_device(session, task, done[task], _journal(task, record)) for task in alone]
        run.errors.extend(spread(session, [Lane(jobs, session.places)], deliver, events.progress))


def _pairs_jobs(session: Session, run: Run, record: Record) -> list[Job[Exhausted]]:
    """Jobs for the pairs that no earlier run has judged, those of variants whose first call is slow before others."""
    if not run.options.exhaustive or session.ready.backend != "cuda":
        return []
    run.exhausted.extend(record.exhausted.values())
    slow_first = sorted(run.declarations.items(), key=lambda pair: pair[0] not in session.slow)
    todo = [
        (name, declaration, pairs)
        for name, declaration in slow_first
        for pairs in wanted(declaration, run.options.dtypes, run.options.effort)
        if (name, pairs.dtype) not in record.exhausted
    ]
    return [pairs_job(session, *each, place=at % session.places) for at, each in enumerate(todo)]


def _probe_tasks(run: Run) -> list[ProbeTask]:
    subjects = len(run.declarations) * len(run.options.dtypes)
    share = time_share(run.ready.backend, subjects, is_alone=len(run.options.probes) == 1 and not run.options.cases)
    return [
        ProbeTask(
            variant=name,
            dtype=dtype,
            probe=probe,
            effort=run.options.effort,
            axis=run.options.axis,
            seed=run.options.seed,
            time_share=share,
        )
        for probe in run.options.probes
        for name, declaration in run.declarations.items()
        for dtype in run.options.dtypes
        if dtype in declaration.dtypes
    ]


def _on_one_device(
    session: Session, task: ProbeTask, done: Sequence[Outcome], on_outcome: Callable[[int, Outcome], None]
) -> Job[ProbeResult]:
    """Returns a job that no other such job shares a device with, since each takes much of its memory."""

    def work(emit: Callable[[ProbeResult], None]) -> None:
        with session.on_one_device() as own:
            probe_job(own, task, done=done, on_outcome=on_outcome).work(emit)

    return Job(str(task), work)


def _journalled(session: Session, task: ProbeTask, record: Record, done: Sequence[Outcome]) -> Job[ProbeResult]:
    return probe_job(session, task, done=done, on_outcome=_journal(task, record))


def _journal(task: ProbeTask, record: Record) -> Callable[[int, Outcome], None]:
    return lambda index, outcome: record.add(Kept(outcome=(task, index, outcome)))
