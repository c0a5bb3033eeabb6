"""The stages of a check that keep every worker busy: loading variants, then cases and probes. Imports no torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softcheck.probes.registry import EXCLUSIVE, TELLING
from softcheck.run.model import Events, Run
from softcheck.run.plan import plan, scouts
from softcheck.run.pool import Job, Lane, spread
from softcheck.run.probing import ProbeResult, ProbeTask, needs_the_device, probe_job
from softcheck.run.record import Record
from softcheck.run.session import Result, Session
from softcheck.variants.declaration import Declaration

SLOW = 3.0
"""Seconds of a variant's first call in a process (imports, torch.compile) beyond which it keeps to its share of the workers:
each other one would have to make that first call too."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What loading a variant came to, and the workers that are kept for it where its first call is slow."""

    spec: str
    found: Declaration | str
    apart: Session | None


def load(
    session: Session,
    run: Run,
    events: Events,
    record: Record,
    on_loaded: Callable[[str, Declaration, bool], None],
    *,
    spare: int = 0,
) -> dict[str, Session]:
    """Loads all variants and runs each one's scouts, which show whether it can be called before more workers are lost to it.

    ``on_loaded`` is told of each as it is there, and whether its first call was slow; ``spare`` workers are left to what it
    begins. Returns, for each variant whose first call is slow, the session whose workers are kept for it.
    """
    events.stage("loading variants")
    specs = run.options.variants
    run.results.extend(record.results.values())
    apart: dict[str, Session] = {}

    def deliver(item: _Loaded | Result) -> None:
        if isinstance(item, Result):
            record.add_result(item)
            run.results.append(item)
        elif isinstance(item.found, str):
            run.refused[item.spec] = item.found
        else:
            run.declarations[item.spec] = item.found
            if item.apart is not None:
                apart[item.spec] = item.apart
                session.slow.add(item.spec)
            on_loaded(item.spec, item.found, item.apart is not None)

    try:
        jobs = [_loading(session, spec, run, record) for spec in specs]
        run.errors.extend(spread(session, [Lane(jobs, max(1, session.jobs - spare))], deliver, events.progress))
    finally:
        # In the order in which they were named, whichever was ready first.
        run.declarations = {spec: run.declarations[spec] for spec in specs if spec in run.declarations}
        run.refused = {spec: run.refused[spec] for spec in specs if spec in run.refused}
    return apart


def _loading(session: Session, spec: str, run: Run, record: Record) -> Job[_Loaded | Result]:
    def work(emit: Callable[[_Loaded | Result], None]) -> None:
        # What the first call prepares in its process serves the scouts.
        own = session.apart()
        seconds: list[float] = []
        found = own.load(spec, run.options.dtypes, on_first_call=seconds.append)
        is_slow = max(seconds, default=0.0) > SLOW
        emit(_Loaded(spec, found, own if is_slow else None))
        try:
            if isinstance(found, Declaration):
                for case in scouts(run.options.cases, found, run.options.dtypes):
                    if (spec, case.id) not in record.results:
                        own.run_case(case, [spec], on_result=emit)
        finally:
            if not is_slow:
                own.rejoin()

    return Job(f"loading {spec}", work)


def cases_and_probes(
    session: Session,
    run: Run,
    events: Events,
    record: Record,
    *,
    apart: dict[str, Session],
    before_exclusive: Callable[[], None],
) -> None:
    """Every case and every probe that has no result yet, each variant of ``apart`` with its own session.

    What needs a GPU to itself comes last, when ``before_exclusive`` has returned: nothing else uses the device then.
    """
    planned = plan(run.options.cases, run.declarations, run.options.dtypes)
    run.notes.extend(planned.notes)
    run.probed.extend(record.probed.values())
    measured = {(result.variant, result.case.id) for result in run.results}
    cases = [(case, [name for name in names if (name, case.id) not in measured]) for case, names in planned.tasks]
    tasks = [task for task in _probe_tasks(run) if task not in record.probed]
    alone = [task for task in tasks if needs_the_device(task, session.ready)]
    # Tried beside the others first, and once more alone where too little memory was left.
    large = [task for task in tasks if _is_exclusive(task, session) and task not in alone]
    small = [task for task in tasks if not _is_exclusive(task, session)]

    def deliver(item: Result | ProbeResult) -> None:
        if isinstance(item, Result):
            record.add_result(item)
            run.results.append(item)
        elif item.task in large and item.conclusion.skipped:
            large.remove(item.task)
            alone.append(item.task)
        else:
            record.add_probed(item)
            run.probed.append(item)

    def lane(own: Session, names: Sequence[str], most: int) -> Lane[Result | ProbeResult]:
        shares = [(case, [name for name in takers if name in names]) for case, takers in cases]
        on_cases = [own.job(case, takers) for case, takers in shares if takers]
        probes = [(task.probe in TELLING, _journalled(own, task, record)) for task in small if task.variant in names]
        # Long ones first, lest a worker be left alone with one at the end.
        long, short = ([job for is_long, job in probes if is_long is wanted] for wanted in (True, False))
        return Lane([*long, *on_cases, *short], most)

    share = max(1, session.jobs // max(1, len(run.declarations)))
    lanes: list[Lane[Result | ProbeResult]] = [
        *(lane(own, [name], share) for name, own in apart.items()),
        Lane([probe_job(apart.get(task.variant, session), task) for task in large], 1),
        lane(session, [name for name in run.declarations if name not in apart], session.jobs),
    ]
    total = sum(len(each.jobs) for each in lanes) + len(alone)
    if total:
        events.stage("running cases and probes")
    run.errors.extend(spread(session, lanes, deliver, lambda done, _: events.progress(done, total)))
    for own in apart.values():
        own.rejoin()
    before_exclusive()
    if alone:
        events.stage("running probes that need the GPU alone")
        jobs = [_journalled(session, task, record) for task in alone]
        run.errors.extend(spread(session, [Lane(jobs, 1)], deliver, events.progress))


def _probe_tasks(run: Run) -> list[ProbeTask]:
    return [
        ProbeTask(variant=name, dtype=dtype, probe=probe, quick=run.options.quick, seed=run.options.seed)
        for probe in run.options.probes
        for name, declaration in run.declarations.items()
        for dtype in run.options.dtypes
        if dtype in declaration.dtypes
    ]


def _is_exclusive(task: ProbeTask, session: Session) -> bool:
    return task.probe in EXCLUSIVE and session.ready.backend == "cuda"


def _journalled(session: Session, task: ProbeTask, record: Record) -> Job[ProbeResult]:
    return probe_job(
        session,
        task,
        done=record.outcomes.get(task, ()),
        on_outcome=lambda index, outcome: record.add_outcome(task, index, outcome),
    )
