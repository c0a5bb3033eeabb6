"""Stages of a check that keep every worker busy: loading variants, then cases and probes. Imports no torch."""

from collections.abc import Callable, Sequence
from functools import partial

from softcheck.cases.case import Case
from softcheck.contract import FindingKind, Violation
from softcheck.probes.outcome import Outcome
from softcheck.probes.registry import EXCLUSIVE, HEAVY, LONG
from softcheck.run.exhaust import AT_ONCE, Exhausted, pairs_job, wanted
from softcheck.run.model import Events, FirstFinding, Run, RunOptions, Standing
from softcheck.run.patience import Over
from softcheck.run.plan import covered, left_out, plan, scouts
from softcheck.run.pool import Job, Lane, spread
from softcheck.run.probing import ProbeResult, probe_job, time_share
from softcheck.run.protocol import ProbeTask
from softcheck.run.record import Kept, Record
from softcheck.run.session import CaseMeasurement, Session
from softcheck.variants.declaration import Declaration

_HEAVY_AT_ONCE = 2


def load(session: Session, run: Run, events: Events, record: Record) -> None:
    """Loads all variants and runs each one's scouts, which show whether it can be called before it costs more workers."""
    events.stage("loading variants")
    specs = run.options.variants
    run.results.extend(record.results.values())

    def deliver(item: tuple[str, Declaration | str] | CaseMeasurement) -> None:
        if isinstance(item, CaseMeasurement):
            _keep(item, run, record, standings)
            return
        spec, found = item
        if isinstance(found, str):
            run.refused[spec] = found
            return
        run.declarations[spec] = found
        for dtype in (each for each in run.options.dtypes if each in found.dtypes):
            if (over := session.patience.over(spec, dtype)) is not None:
                standings.add_given_up(spec, dtype, over)

    standings = Standings(run, events)
    try:
        jobs = [_loading(session, spec, run, record) for spec in specs]
        run.errors.extend(spread(session, [Lane(jobs, session.jobs)], deliver, events.progress))
    finally:
        # Restores the order in which the variants were named, whichever was ready first.
        run.declarations = {spec: run.declarations[spec] for spec in specs if spec in run.declarations}
        run.refused = {spec: run.refused[spec] for spec in specs if spec in run.refused}


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
            task = options.task(variant, dtype, options.probes[0])
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
    session: Session, spec: str, run: Run, record: Record
) -> Job[tuple[str, Declaration | str] | CaseMeasurement]:
    def work(emit: Callable[[tuple[str, Declaration | str] | CaseMeasurement], None]) -> None:
        found = session.load(spec, run.options.dtypes)
        emit((spec, found))
        for case in [] if isinstance(found, str) else _first_cases(run.options, found):
            done = [] if (spec, case.id) in record.results else session.run_case(case, [spec], on_result=emit)
            if any(v.kind is FindingKind.TIMEOUT for result in done for v in result.measurement.violations):
                # The other scouts don't wait for it; they run later, beside the other cases.
                break

    return Job(f"loading {spec}", work)


def _first_cases(options: RunOptions, declaration: Declaration) -> list[Case]:
    """Returns the scouts, or all cases in the given order if the run is ``in_order``."""
    if not options.in_order:
        return scouts(options.cases, declaration, options.dtypes)
    asked = set(options.dtypes).intersection(declaration.dtypes)
    return [case for case in options.cases if case.dtype in asked and left_out(case, declaration) is None]


def cases_and_probes(session: Session, run: Run, events: Events, record: Record) -> None:
    """Runs every case and every probe, and judges all pairs, that have no result yet.

    Probes that take most of a GPU's memory come last, when nothing else uses the device.
    """
    planned, notes = plan(run.options.cases, run.declarations, run.options.dtypes)
    run.notes.extend(notes)
    run.probed.extend(record.probed.values())
    measured = {(result.variant, result.case.id) for result in run.results}
    cases = [(case, [name for name in names if (name, case.id) not in measured]) for case, names in planned]
    tasks = [task for task in _probe_tasks(run) if task not in record.probed]
    on_gpu = session.ready.backend == "cuda"
    alone = [task for task in tasks if on_gpu and task.probe in EXCLUSIVE]
    slow = [name for name in run.declarations if name in session.slow]
    heavy = [
        task
        for task in tasks
        if on_gpu and task.probe in HEAVY and task.variant not in slow and not run.options.in_order
    ]
    standings = Standings(run, events)

    def deliver(item: CaseMeasurement | ProbeResult | Exhausted) -> None:
        if isinstance(item, CaseMeasurement | Exhausted):
            _keep(item, run, record, standings)
        else:
            record.add(Kept(probed=item))
            run.probed.append(item)
            standings.add_probed(item)

    def lane(names: Sequence[str], most: int) -> Lane[CaseMeasurement | ProbeResult | Exhausted]:
        shares = [(case, [name for name in takers if name in names]) for case, takers in cases]
        on_cases = [session.job(case, takers) for case, takers in shares if takers]
        mine = [task for task in tasks if task.variant in names and task not in (*heavy, *alone)]
        probes = [(task.probe in LONG, _journalled(session, task, record)) for task in mine]
        if run.options.in_order:
            return Lane([*on_cases, *(job for _, job in probes)], most)
        # Long probes come first, so that none runs alone at the end while the other workers are idle.
        long, short = ([job for is_long, job in probes if is_long is wanted] for wanted in (True, False))
        return Lane([*long, *on_cases, *short], most)

    def on_one_device(task: ProbeTask, emit: Callable[[ProbeResult], None]) -> None:
        with session.on_one_device() as own:
            _journalled(own, task, record).work(emit)

    share = max(1, session.jobs // max(1, len(run.declarations)))
    lanes: list[Lane[CaseMeasurement | ProbeResult | Exhausted]] = [
        Lane(_pairs_jobs(session, run, record), AT_ONCE * session.places),
        *(lane([name], share) for name in slow),
        Lane([_journalled(session, task, record) for task in heavy], _HEAVY_AT_ONCE * session.places),
        # Lanes before this one have the first choice of each place that gets free.
        lane([name for name in run.declarations if name not in slow], session.jobs),
    ]
    if any(each.jobs for each in lanes):
        events.stage("running cases and probes")
    run.errors.extend(spread(session, lanes, deliver, events.progress))
    if alone:
        events.stage("running probes that need the GPU alone")
        # An idle context costs memory.
        session.retire_idle()
        jobs = [Job(str(task), partial(on_one_device, task)) for task in alone]
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
    options = run.options
    share = time_share(
        run.ready.backend,
        len(run.declarations) * len(options.dtypes),
        is_alone=len(options.probes) == 1 and not options.cases,
    )
    return [
        options.task(name, dtype, probe, time_share=share)
        for probe in options.probes
        for name, declaration in run.declarations.items()
        for dtype in options.dtypes
        if dtype in declaration.dtypes
    ]


def _journalled(session: Session, task: ProbeTask, record: Record) -> Job[ProbeResult]:
    def keep(index: int, outcome: Outcome) -> None:
        record.add(Kept(outcome=(task, index, outcome)))

    return probe_job(session, task, done=record.outcomes.get(task, ()), on_outcome=keep)
