"""A benchmark: several shapes in several dtypes, each measured with all variants that declare it. Imports no torch."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from softcheck.errors import NothingRunError, SoftcheckError
from softcheck.run.model import Events
from softcheck.run.plan import timed_shape, timed_together
from softcheck.run.pool import Devices, Job, Lane, spread
from softcheck.run.protocol import Ready
from softcheck.run.session import Session
from softcheck.speed.samples import Sampled, Shape, ShapeSamples
from softcheck.variants.declaration import Declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """Settings of a benchmark. ``seconds`` is the budget of the rounds on one shape."""

    variants: tuple[str, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[Shape, ...]
    """Rows and columns to time; none for those on which a report times the operation."""
    seconds: float = 2.0
    seed: int = 0
    seconds_per_call: float = 120.0


@dataclass(slots=True, kw_only=True)
class BenchRun:
    """Measurements of a benchmark, in the order of dtypes and shapes."""

    options: BenchOptions
    ready: Ready
    declarations: dict[str, Declaration] = field(default_factory=dict)
    shapes: list[ShapeSamples] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    interrupted: bool = False
    seconds: float = 0.0


def bench(options: BenchOptions, events: Events | None = None, devices: Devices | None = None) -> BenchRun:
    """Measures every shape; Ctrl-C returns the measurements so far.

    ``devices`` are those of a cluster, in place of this machine's; all variants of a shape are measured on one of them. Raises NothingRunError if there is no CUDA device: the interpreter's speed says nothing of a GPU's.
    """
    events = Events() if events is None else events
    begun = time.monotonic()
    events.stage("starting")
    try:
        session = Session("cuda", jobs=1, seconds_per_call=options.seconds_per_call, devices=devices)
    except NothingRunError:
        raise NothingRunError(
            "nothing was timed: torch sees no CUDA device, and what an interpreter takes says nothing of a GPU; "
            "run on a machine with a GPU and a CUDA build of torch"
        ) from None
    run = BenchRun(options=options, ready=session.ready)
    try:
        _load(session, run, events)
        _measure(session, run, events)
    except KeyboardInterrupt:
        run.interrupted = True
    except SoftcheckError as error:
        run.errors.append(str(error))
    finally:
        session.close()
        run.seconds = time.monotonic() - begun
    return run


def _load(session: Session, run: BenchRun, events: Events) -> None:
    events.stage("loading variants")
    for done, spec in enumerate(run.options.variants, start=1):
        loaded = session.load(spec, run.options.dtypes)
        if isinstance(loaded, str):
            run.errors.append(f"{spec}: {loaded}")
        else:
            run.declarations[spec] = loaded
        events.progress(done, len(run.options.variants))


def _measure(session: Session, run: BenchRun, events: Events) -> None:
    shapes = run.options.shapes or dict.fromkeys(map(timed_shape, run.declarations.values()))
    todo = [(dtype, shape) for dtype in run.options.dtypes for shape in shapes]
    events.stage("timing")
    found: dict[tuple[int, int], ShapeSamples] = {}

    def job(index: int) -> Job[tuple[tuple[int, int], ShapeSamples]]:
        dtype, shape = todo[index]

        def work(emit: Callable[[tuple[tuple[int, int], ShapeSamples]], None]) -> None:
            timed = {n: d for n, d in run.declarations.items() if run.options.shapes or timed_shape(d) == shape}
            left_out = {name: _left_out(d, dtype, shape[1]) for name, d in timed.items()}
            names = [name for name, why in left_out.items() if why is None]
            for number, group in enumerate(timed_together(names, run.declarations) or [()]):
                with session.on_one_device() as own:
                    measured = own.time(group, dtype, shape, seed=run.options.seed, seconds=run.options.seconds)
                if isinstance(measured, str):
                    raise SoftcheckError(f"{dtype} {shape[0]}x{shape[1]}: {measured}")
                shown = {name: why for name, why in left_out.items() if name in group or (why and not number)}
                emit(((index, number), _with_left_out(measured, shown)))

        return Job(f"{dtype} {shape[0]}x{shape[1]}", work)

    try:
        jobs = [job(index) for index in range(len(todo))]
        run.errors += spread(session, [Lane(jobs, session.places)], lambda item: found.update([item]), events.progress)
    finally:
        run.shapes += [found[index] for index in sorted(found)]


def _left_out(declaration: Declaration, dtype: str, columns: int) -> str | None:
    if dtype not in declaration.dtypes:
        return f"declares {', '.join(declaration.dtypes)}"
    limit = declaration.timed_limit(dtype)
    return f"declares at most {limit} columns" if limit is not None and columns > limit else None


def _with_left_out(samples: ShapeSamples, left_out: dict[str, str | None]) -> ShapeSamples:
    by_name: dict[str, Sampled] = {s.name: s for s in samples.variants}
    rows: Sequence[Sampled] = [by_name.get(name) or Sampled(name=name, reason=why) for name, why in left_out.items()]
    return msgspec.structs.replace(samples, variants=tuple(rows))
