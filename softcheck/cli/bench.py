"""``softcheck bench``: how fast variants are beside torch.softmax and a device copy, on a GPU."""

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import click
import msgspec

from softcheck.cli import progress
from softcheck.cli.command import Word, command
from softcheck.cli.config import LONGEST, NumberRange
from softcheck.cli.options import (
    INTERRUPTED,
    NOTHING_RAN,
    BuiltinNames,
    Cluster,
    Dtypes,
    Output,
    Seed,
    TimeLimit,
    opened,
    output_as,
)
from softcheck.errors import NothingRunError, UsageError
from softcheck.report.build import command_line
from softcheck.report.formats import SPEED_FORMATS
from softcheck.report.model import TORCH, ShapeSpeed, SpeedReport
from softcheck.report.reproduce import environment
from softcheck.report.speed import means, shape_speed
from softcheck.run.check import check
from softcheck.run.model import Run, RunOptions
from softcheck.run.plan import timed_shape
from softcheck.speed.samples import DEFAULT, SWEEPS, Sampled, Shape, parse
from softcheck.variants.registry import resolve


@command("bench")
def bench_command(
    *,
    names: BuiltinNames,
    dtype: Dtypes = (),
    shapes: Annotated[Any, Word(parse)] = None,
    sweep: Annotated[tuple[str, ...], click.Choice(list(SWEEPS))] = (),
    reference: str = TORCH,
    seconds: Annotated[float, NumberRange(min=0.01, max=LONGEST)] = 2.0,
    seed: Seed = 0,
    time_limit: TimeLimit = 120.0,
    cluster: Cluster,
    profile: bool = False,
    output: Annotated[Output, output_as(SPEED_FORMATS)],
) -> None:
    """Time variants (all built-in ones if left out) in the same rounds as torch.softmax and a device copy.

    Needs a GPU; exits with 3 without one. Every timed call has a fresh input outside the cache and a checked output.
    """
    dtypes = dtype or ("float16",)
    chosen = tuple(dict.fromkeys([*(shapes or ()), *(shape for name in sweep for shape in SWEEPS[name])]))
    if profile:
        _profile(names, dtypes, chosen or (DEFAULT,), seed)
        return
    against = resolve(reference).name
    options = RunOptions(
        variants=names if against in names or against == TORCH else (*names, against),
        dtypes=dtypes,
        cases=(),
        whole_corpus=False,
        device="cuda",
        jobs=1,
        seed=seed,
        seconds_per_call=time_limit,
        shapes=chosen,
        timing_seconds=seconds,
    )
    cluster.device("cuda")
    with opened(cluster, options.variants) as devices, progress.shown() as events:
        try:
            run = check(options, events, devices=devices)
        except NothingRunError:
            raise NothingRunError(
                "nothing was timed: torch sees no CUDA device, and what an interpreter takes says nothing of a GPU; "
                "run on a machine with a GPU and a CUDA build of torch"
            ) from None
    report = speed_report(run, against, command_line())
    output.write(report)
    for error in report.errors:
        click.echo(f"softcheck: {error}", err=True)
    # 2 if a variant or a shape could not be timed at all.
    has_figures = any(f.seconds is not None for shape in report.shapes for f in shape.variants)
    sys.exit(INTERRUPTED if run.interrupted else 2 if report.errors else 0 if has_figures else NOTHING_RAN)


def speed_report(run: Run, reference: str, command: Sequence[str]) -> SpeedReport:
    """The report of a run in which variants were timed, with a reason for each that was left out of a shape."""
    found, seen = list[ShapeSpeed](), set[tuple[str, Shape]]()
    for samples in run.speeds:
        key = samples.dtype, (samples.rows, samples.columns)
        left_out = () if key in seen else _left_out(run, *key)
        seen.add(key)
        shown = msgspec.structs.replace(samples, variants=(*samples.variants, *left_out))
        found.append(shape_speed(shown, run.declarations, reference))
    refused = [f"{name}: {why}" for name, why in run.refused.items()]
    return SpeedReport(
        environment=environment(run.ready, run.options.seed, command),
        reference=reference,
        shapes=tuple(found),
        means=means(tuple(found)),
        interrupted=run.interrupted,
        errors=(*refused, *run.untimed, *run.errors),
        seconds=run.seconds,
    )


def _left_out(run: Run, dtype: str, shape: Shape) -> Iterator[Sampled]:
    for name, declaration in run.declarations.items():
        limit = declaration.timed_limit(dtype)
        if not run.options.shapes and timed_shape(declaration) != shape:
            continue
        if dtype not in declaration.dtypes:
            yield Sampled(name=name, reason=f"declares {', '.join(declaration.dtypes)}")
        elif limit is not None and shape[1] > limit:
            yield Sampled(name=name, reason=f"declares at most {limit} columns")


def _profile(names: tuple[str, ...], dtypes: tuple[str, ...], shapes: tuple[Shape, ...], seed: int) -> None:
    if len(names) != 1 or len(dtypes) != 1 or len(shapes) != 1:
        raise UsageError(
            f"--profile launches once, but {len(names)} variants, {len(dtypes)} dtypes and {len(shapes)} shapes are "
            "selected; name one of each, as in: softcheck bench one_block --dtype float32 --shapes 4096x1024 --profile"
        )
    from softcheck.run.timing import profile

    profile(names[0], dtypes[0], shapes[0], seed)
    click.echo(f"launched {names[0]} once on {dtypes[0]} {shapes[0][0]}x{shapes[0][1]}", err=True)
