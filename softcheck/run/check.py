"""One whole check: load the variants, run cases and probes, search with generated cases, time. Imports no torch."""

import contextlib
import dataclasses
import math
import signal
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise

from softcheck.errors import SoftcheckError
from softcheck.run.exhaust import wanted
from softcheck.run.generate import generate
from softcheck.run.model import Events, GivenUp, Run, RunOptions
from softcheck.run.plan import covered, timed_shape, timed_together
from softcheck.run.pool import Devices, Job, Lane, spread
from softcheck.run.probing import planned_calls
from softcheck.run.record import Keeping, Kept, Record, SearchRecord, header_of
from softcheck.run.session import Session
from softcheck.run.stages import Standings, cases_and_probes, load
from softcheck.speed.samples import Shape, ShapeSamples
from softcheck.variants.recognised import Recognised


def check(
    options: RunOptions, events: Events | None = None, keeping: Keeping | None = None, devices: Devices | None = None
) -> Run:
    """Runs everything that the options ask for. Ctrl-C ends it early and returns the measurements so far.

    The run is then marked ``interrupted``. ``keeping`` names a journal, which is removed after a complete run.
    ``devices`` are those of a cluster, in place of this machine's. Raises NothingRunError if the requested device is missing, and UsageError if the journal can't be written or resumed.
    """
    events = Events() if events is None else events
    begun = time.monotonic()
    marks: list[tuple[str, float]] = []
    told = events.stage

    def stage(name: str) -> None:
        marks.append((name, time.monotonic()))
        told(name)

    events = dataclasses.replace(events, stage=stage)
    events.stage("starting")
    session = Session(
        options.device,
        jobs=1 if options.in_order else options.jobs,
        seconds_per_call=options.seconds_per_call,
        check_heap=options.check_heap,
        compile_seconds=options.compile_seconds,
        devices=devices,
    )
    session.peers = options.peers
    run = Run(options=options, ready=session.ready, facts=session.facts, at_defaults=session.at_defaults)
    try:
        record = _open(options, session, keeping)
    except SoftcheckError:
        session.close()
        raise
    session.on_fact = partial(_keep_fact, record, events)
    try:
        load(session, run, events, record)
        _note_that_pairs_need_a_gpu(run)
        cases_and_probes(session, run, events, record)
        _generate(session, run, events, record)
        _note_given_up(session, run)
        _time(session, run, events, record)
        run.is_complete = True
    except KeyboardInterrupt:
        # From here on the report is drawn and written. A second Ctrl-C, or timeout's to the whole group, must not stop
        # it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        run.interrupted = True
        run.notes.append("interrupted: the figures are of what had been measured by then")
    except SoftcheckError as error:
        run.errors.append(str(error))
    finally:
        session.close()
        run.blames.extend(session.blames.all())
        run.notes.extend(session.blames.notes)
        run.width_limits.extend(session.widths.limits())
        for (name, at), (_, end) in pairwise([*marks, ("", time.monotonic())]):
            run.stages[name] = run.stages.get(name, 0.0) + end - at
        record.close(is_complete=run.is_complete)
        _sort(run)
        run.seconds = time.monotonic() - begun
    return run


def planned(options: RunOptions, events: Events) -> list[str]:
    """Returns lines on the cases and calls that a check would make of each variant, and why a variant has none.

    Raises SoftcheckError for a fault of a probe. A variant is loaded, and called a few times by the probe ``meetings``, whose axes
    depend on the function.
    """
    lines: list[str] = []
    with contextlib.closing(Session(options.device, jobs=1, seconds_per_call=options.seconds_per_call)) as session:
        for name in options.variants:
            events.stage(f"planning {name}")
            declaration = session.load(name, options.dtypes)
            if isinstance(declaration, str):
                lines.append(f"{name}: {declaration}")
                continue
            for dtype in (each for each in options.dtypes if each in declaration.dtypes):
                calls = {probe: planned_calls(session, options.task(name, dtype, probe)) for probe in options.probes}
                counted = ", ".join(f"{probe} {len(made)}" for probe, made in calls.items() if made) or "none"
                cases = len(covered(options.cases, declaration, dtype))
                lines.append(f"{name}, {dtype}: {cases} cases; trials and calls by probe: {counted}")
                for probe, made in calls.items():
                    lines += [f"  {probe}", *(f"    {call}" for call in made)] if made else []
    return lines


def _keep_fact(record: Record, events: Events, variant: str, fact: Recognised) -> None:
    """Keeps what trials have shown of a variant, and tells at once where that is not what was asked for, or nobody said it."""
    record.add(Kept(fact=(variant, fact)))
    if fact.computes or fact.taken:
        events.told(f"{variant}: {fact.in_words()}")


def _open(options: RunOptions, session: Session, keeping: Keeping | None) -> Record:
    """Opens the run's record. Timeouts from before a kill still count."""
    if keeping is None:
        return Record(None, None)
    record = Record(keeping, header_of(options, session.ready, keeping), options.cases)
    record.remind(session.patience)
    for (variant, dtype), blame in record.blames.items():
        session.blames.add(variant, dtype, blame)
    session.blames.on_found = lambda variant, dtype, blame: record.add(Kept(blame=(variant, dtype, blame)))
    session.facts.update(record.facts)
    for limit in record.width_limits:
        session.widths.know(limit)
    session.widths.on_found = lambda limit: record.add(Kept(width_limit=limit))
    return record


def _sort(run: Run) -> None:
    """Sorts results into an order independent of which worker was faster, so that sums and witnesses are too."""
    variants = {name: position for position, name in enumerate(run.options.variants)}
    probes = {name: position for position, name in enumerate(run.options.probes)}
    dtypes = {name: position for position, name in enumerate(run.options.dtypes)}
    run.results.sort(key=lambda r: (variants[r.variant], r.case.id))
    run.probed.sort(key=lambda p: (probes[p.task.probe], variants[p.task.variant], dtypes[p.task.dtype]))
    run.blames.sort(key=lambda b: (variants[b.variant], dtypes[b.dtype], b.case))
    run.width_limits.sort(key=lambda found: (variants[found.variant], dtypes[found.dtype]))
    run.exhausted.sort(key=lambda e: (variants[e.variant], dtypes[e.domain.dtype]))
    # A case that can't be made is missed by each of its variants' jobs.
    run.errors = sorted(set(run.errors))


def _note_that_pairs_need_a_gpu(run: Run) -> None:
    able = [name for name, declaration in run.declarations.items() if wanted(declaration, run.options.dtypes)]
    if able and run.options.exhaustive and run.ready.backend != "cuda":
        run.notes.append("no pairs of 16-bit patterns are judged: that needs a GPU; see softcheck exhaust for a part")


def _note_given_up(session: Session, run: Run) -> None:
    measured = {(result.variant, result.case.id) for result in run.results}
    probed = {(p.task.variant, p.task.dtype, p.task.probe) for p in run.probed}
    for name, declaration in run.declarations.items():
        for dtype in run.options.dtypes:
            over = session.patience.over(name, dtype) if dtype in declaration.dtypes else None
            if over is None:
                continue
            cases = covered(run.options.cases, declaration, dtype)
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
    standings = Standings(run, events)
    for done, (name, declaration, dtype) in enumerate(searches, start=1):
        kept = record.searches.get((name, dtype))
        if kept is not None:
            run.generated.append(kept.generated)
            run.results.extend(kept.results)
            continue
        before = len(run.results)

        found = generate(
            session,
            name,
            dtype,
            examples=run.options.generate,
            seed=run.options.seed,
            declaration=declaration,
            on_result=run.results.append,
        )
        run.generated.append(found)
        if found.failure is not None:
            standings.add_result(found.failure)
            run.results.append(found.failure)
        record.add(Kept(search=SearchRecord(found, tuple(run.results[before:]))))
        events.progress(done, len(searches))


def _time(session: Session, run: Run, events: Events, record: Record) -> None:
    """Times the variants that compute one operation of the same operands side by side, on a GPU."""
    options = run.options
    if run.ready.backend != "cuda" or not options.speed:
        return
    events.stage("timing")
    jobs: list[Job[ShapeSamples]] = []

    def measure(group: tuple[str, ...], dtype: str, shape: Shape, emit: Callable[[ShapeSamples], None]) -> None:
        found = session.time(group, dtype, shape, seed=options.seed, seconds=options.timing_seconds)
        if isinstance(found, str):
            run.untimed.append(f"{dtype} {shape[0]}x{shape[1]}: no speed: {found}")
        else:
            emit(found)

    for dtype in options.dtypes:
        named = {name: d for name, d in run.declarations.items() if dtype in d.dtypes}
        over = {name: found.why for name in named if (found := session.patience.over(name, dtype)) is not None}
        run.untimed.extend(f"{name}, {dtype}: not timed: given up: {why}" for name, why in over.items())
        for shape in options.shapes or dict.fromkeys(map(timed_shape, named.values())):
            names = [
                name
                for name, declaration in named.items()
                if name not in over
                and (options.shapes or timed_shape(declaration) == shape)
                and (declaration.timed_limit(dtype) or math.inf) >= shape[1]
            ]
            for group in timed_together(names, run.declarations):
                if (dtype, shape, group) in record.speeds:
                    run.speeds.append(record.speeds[dtype, shape, group])
                else:
                    jobs.append(Job(f"timing in {dtype}", partial(measure, group, dtype, shape)))

    def deliver(speeds: ShapeSamples) -> None:
        record.add(Kept(speeds=speeds))
        run.speeds.append(speeds)

    run.errors.extend(spread(session, [Lane(jobs, session.places)], deliver, events.progress))
    dtypes, places, shapes = (
        {each: at for at, each in enumerate(order)} for order in (options.dtypes, options.variants, options.shapes)
    )
    run.speeds.sort(
        key=lambda s: (dtypes[s.dtype], shapes.get((s.rows, s.columns), 0), min(places[v.name] for v in s.variants))
    )
