"""``softcheck bench``: how fast variants are beside torch.softmax and a device copy, on a GPU."""

import sys
from typing import Annotated, Any

import click

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
from softcheck.errors import UsageError
from softcheck.report.build import command_line
from softcheck.report.formats import SPEED_FORMATS
from softcheck.report.model import TORCH, SpeedReport
from softcheck.report.reproduce import environment
from softcheck.report.speed import means, shape_speed
from softcheck.run.bench import BenchOptions, bench
from softcheck.speed.samples import DEFAULT, SWEEPS, Shape, parse
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
    options = BenchOptions(
        variants=names if against in names or against == TORCH else (*names, against),
        dtypes=dtypes,
        shapes=chosen,
        seconds=seconds,
        seed=seed,
        seconds_per_call=time_limit,
    )
    cluster.device("cuda")
    with opened(cluster, options.variants) as devices, progress.shown() as events:
        run = bench(options, events, devices)
    timed = tuple(shape_speed(samples, run.declarations, against) for samples in run.shapes)
    report = SpeedReport(
        environment=environment(run.ready, seed, command_line()),
        reference=against,
        shapes=timed,
        means=means(timed),
        interrupted=run.interrupted,
        errors=tuple(run.errors),
        seconds=run.seconds,
    )
    output.write(report)
    for error in report.errors:
        click.echo(f"softcheck: {error}", err=True)
    # 2 if a variant or a shape could not be timed at all.
    has_figures = any(f.seconds is not None for shape in timed for f in shape.variants)
    sys.exit(INTERRUPTED if run.interrupted else 2 if report.errors else 0 if has_figures else NOTHING_RAN)


def _profile(names: tuple[str, ...], dtypes: tuple[str, ...], shapes: tuple[Shape, ...], seed: int) -> None:
    if len(names) != 1 or len(dtypes) != 1 or len(shapes) != 1:
        raise UsageError(
            f"--profile launches once, but {len(names)} variants, {len(dtypes)} dtypes and {len(shapes)} shapes are "
            "selected; name one of each, as in: softcheck bench one_block --dtype float32 --shapes 4096x1024 --profile"
        )
    from softcheck.run.timing import profile

    profile(names[0], dtypes[0], shapes[0], seed)
    click.echo(f"launched {names[0]} once on {dtypes[0]} {shapes[0][0]}x{shapes[0][1]}", err=True)
