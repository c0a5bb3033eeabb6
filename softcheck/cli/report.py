"""``softcheck report``: judge variants and draw the report."""

import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from oracles.formats import FORMATS as DTYPES
from softcheck.cases.case import refuse_changed
from softcheck.cases.corpus import default_corpora, load, select
from softcheck.cases.corpus_edit import add
from softcheck.cli import progress, resuming
from softcheck.cli.config import LONGEST, ConfiguredCommand, NumberRange, dtype_option
from softcheck.cli.options import (
    INTERRUPTED,
    NOTHING_RAN,
    ClusterChoice,
    Output,
    cluster_options,
    device_option,
    flags,
    gathered,
    jobs_option,
    limit_options,
    opened,
    output_option,
    seed_option,
    variant_options,
)
from softcheck.errors import UsageError, near_matches
from softcheck.probes.registry import EFFORTS, MEETINGS, PROBES, Effort, check_name
from softcheck.report import ci
from softcheck.report.build import build, command_line, exit_code
from softcheck.report.compare import Comparison, Tolerances, compare
from softcheck.report.formats import FORMATS, render
from softcheck.report.json_format import load_any
from softcheck.report.model import Report
from softcheck.report.output import write
from softcheck.report.traces import with_traces
from softcheck.run import forking
from softcheck.run.check import check
from softcheck.run.dry_run import planned
from softcheck.run.model import Run, RunOptions
from softcheck.run.patience import HANG_SECONDS
from softcheck.run.process import DeviceChoice, can_check_heap
from softcheck.run.regression import named
from softcheck.run.widths import COMPILE_SECONDS


def _format(_context: click.Context, _option: click.Parameter, value: str) -> str:
    if value not in FORMATS:
        raise UsageError(f"unknown format {value!r}; {near_matches(value, list(FORMATS))}")
    return value


def _probe_names(_context: click.Context, _option: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(check_name(name) for name in value))


_FLAGS = {
    "--no-probes": "Run cases alone, as any choice of cases without --probe does.",
    "--quick": "The same as --effort quick.",
    "--save": "Add the failures among generated cases to ./corpora/regressions.",
    "--require-all-sizes": "Take it for a finding where a variant refuses a size or is too wide to compile.",
    "--in-order": "Run cases, then probes, one after the other in one process, in the order of --case.",
    "--check-heap": "Have glibc end a worker that frees memory beside which something was written.",
    "--peers": "Also say what flash-attention's 2x rule and torch.testing.assert_close would have said.",
    "--dry-run": "Print the cases and calls that would be made of each variant, and make none of them.",
    "--strict-declarations": "Take a declared defect that does not show for an error.",
    "--timings": "Say on standard error where the run's own time went, and which probes took longest.",
}


@click.command("report", cls=ConfiguredCommand)
@variant_options(built_in=True)
@click.option(
    "--dtype", multiple=True, callback=dtype_option, help="float16, bfloat16, float32 or float64; all if left out."
)
@click.option("--case", "globs", multiple=True, metavar="GLOB", help="Only cases whose id matches.")
@click.option("--family", multiple=True, help="Only cases of this family.")
@click.option("--tag", multiple=True, help="Only cases with this tag.")
@click.option("--corpus", multiple=True, metavar="NAME|FOLDER", help="Corpora to run; all built-in ones if left out.")
@click.option(
    "--probe",
    multiple=True,
    callback=_probe_names,
    metavar="NAME",
    help="Only these probes, and no cases unless some are chosen too; see softcheck list probes.",
)
@click.option(
    "--axis",
    metavar="AXIS=VALUE,…",
    help="One call in these circumstances alone, as a finding of the probe meetings names them.",
)
@click.option(
    "--effort",
    type=click.Choice(EFFORTS),
    default="normal",
    show_default=True,
    help="How much probes try: quick keeps to the few trials that show most, thorough lets more circumstances meet.",
)
@click.option(
    "--exhaustive/--no-exhaustive",
    default=None,
    help="Judge every pair of 16-bit patterns too, on a GPU; left out, only beside the whole corpus.",
)
@device_option
@cluster_options
@click.option(
    "--generate",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Also judge N generated cases each, which seek the largest error over bound.",
)
@flags(_FLAGS)
@seed_option
@jobs_option
@click.option(
    "--time-limit",
    type=NumberRange(min=1, max=LONGEST),
    default=HANG_SECONDS,
    show_default=True,
    help="Seconds that a call may take; imports and compilations not counted, and a first call may take longer.",
)
@click.option(
    "--compile-seconds",
    type=NumberRange(min=0, max=LONGEST),
    default=COMPILE_SECONDS,
    show_default=True,
    help="Leave out rows so wide that a report would compile their kernels for longer on a GPU.",
)
@click.option("--speed/--no-speed", default=True, help="Time the variants, where there is a GPU.")
@click.option(
    "--require-coverage",
    type=NumberRange(min=0, max=100),
    default=0.0,
    metavar="PERCENT",
    help="Demand that calls run so many of the lines of each variant's own code. Lines count alone; what came of conditions "
    "is a note.",
)
@gathered(
    "output",
    Output,
    click.option(
        "--format", "output_format", default="table", callback=_format, show_default=True, help=", ".join(FORMATS) + "."
    ),
    output_option,
)
@click.option(
    "--trace/--no-trace",
    default=None,
    help="Record each variant's worst row step by step; left out, for --format html alone.",
)
@click.option(
    "--baseline",
    metavar="FILE",
    help="Saved report to compare with; what became worse goes to standard error, and stands in --format html.",
)
@limit_options
@click.option(
    "--journal",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where measurements are kept until the run is complete; below $XDG_STATE_HOME/softcheck or "
    "~/.local/state/softcheck if left out, for 30 days after a kill.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="JOURNAL",
    is_eager=True,
    callback=resuming.take_up,
    help="Go on with a killed or interrupted run, with its options.",
)
def command(
    *,
    names: tuple[str, ...],
    dtype: tuple[str, ...],
    globs: tuple[str, ...],
    family: tuple[str, ...],
    tag: tuple[str, ...],
    corpus: tuple[str, ...],
    probe: tuple[str, ...],
    no_probes: bool,
    effort: Effort,
    quick: bool,
    axis: str | None,
    exhaustive: bool | None,
    device: DeviceChoice,
    cluster: ClusterChoice,
    jobs: int | None,
    save: bool,
    time_limit: float,
    in_order: bool,
    check_heap: bool,
    speed: bool,
    dry_run: bool,
    output: Output,
    trace: bool | None,
    timings: bool,
    baseline: str | None,
    limits: Tolerances,
    journal: Path | None,
    resume: Path | None,
    **given: Any,
) -> None:
    """Judge variants, all built-in ones if none is named, on the corpora and by the probes, and print a verdict table.

    Without a GPU the kernels run under Triton's interpreter: their logic is checked, not the GPU's arithmetic.
    """
    device = cluster.device(device)
    if cluster.is_wanted and in_order:
        raise UsageError("--in-order runs all calls in one process; leave out --gpus, --scheduler and --workers")
    if not (check_heap or cluster.is_wanted):
        forking.prepare(device)
    before = None if baseline is None else load_any(baseline)
    dtypes = dtype or tuple(DTYPES)
    with_cases, probes = (False, (MEETINGS,)) if axis is not None else _stages(probe, no_probes=no_probes)
    cases = (
        select(
            load(corpus or default_corpora()),
            dtypes=dtypes,
            globs=globs,
            families=family,
            tags=tag,
        )
        if with_cases
        else []
    )
    refuse_changed(cases)
    if in_order:
        cases.sort(key=lambda case: next((i for i, glob in enumerate(globs) if fnmatchcase(case.id, glob)), 0))
    if check_heap and not can_check_heap():
        raise UsageError("--check-heap: this machine has no libc_malloc_debug.so.0 beside its C library; leave it out")
    whole_corpus = with_cases and not (globs or family or tag or corpus)
    options = RunOptions(
        variants=names,
        dtypes=dtypes,
        cases=tuple(cases),
        whole_corpus=whole_corpus,
        probes=probes,
        effort="quick" if quick else effort,
        axis=axis,
        device=device,
        jobs=jobs,
        exhaustive=exhaustive is not False and (whole_corpus or exhaustive is True),
        speed=speed and with_cases,
        seconds_per_call=time_limit,
        in_order=in_order,
        check_heap=check_heap,
        **given,
    )
    if dry_run:
        with progress.shown(corpus) as events:
            plans = planned(options, events)
        write("".join(f"{each}\n" for each in plans), output.path)
        sys.exit(NOTHING_RAN)
    keeping = resuming.keeping(click.get_current_context(), journal, resume)
    resuming.announce(keeping)
    with opened(cluster, names, jobs) as devices, progress.shown(corpus) as events:
        run = check(options, events, keeping, devices)
        report = build(run, command=command_line(), corpora=corpus)
        if (output.format == "html" if trace is None else trace) and run.is_complete:
            report = with_traces(report, cases, events, corpus, run.facts)
    comparison = None if before is None else compare(before, report, limits)
    output.write(report, comparison)
    if save:
        _save(run)
    if timings:
        _say_timings(report, run)
    if not run.is_complete:
        resuming.say_how_to_go_on(keeping)
    worse = comparison is not None and _is_worse(comparison, output.format)
    sys.exit(INTERRUPTED if run.interrupted else _exit_code(report) or int(worse))


def _say_timings(report: Report, run: Run) -> None:
    """Prints the seconds of each stage, of the whole, and of the probes that took longest, which run side by side."""
    slowest = sorted(run.probed, key=lambda probed: -probed.seconds)[:_SLOWEST]
    lines = [(stage.seconds, stage.name) for stage in report.stages]
    lines += [(report.seconds, "in all"), *((probed.seconds, f"of these, {probed.task}") for probed in slowest)]
    for seconds, name in lines:
        click.echo(f"softcheck: {seconds:8.1f} s  {name}", err=True)


def _is_worse(comparison: Comparison, output_format: str) -> bool:
    """Prints the comparison with a baseline on standard error, as annotations where the report is drawn as such."""
    drawn = render(comparison, "github" if output_format == "github" else "table")
    click.echo(drawn, err=True, nl=False)
    ci.add_step_summary(lambda: render(comparison, "markdown"))
    return bool(comparison.regressions)


_SLOWEST = 5
"""Probes whose seconds ``--timings`` prints."""


def _stages(probe: tuple[str, ...], *, no_probes: bool) -> tuple[bool, tuple[str, ...]]:
    """Returns True if cases are run, and the probes that are run: choosing one of them for this run leaves the other out."""
    context = click.get_current_context()
    cases_chosen = resuming.given(context, "globs", "family", "tag", "corpus")
    probes_chosen = resuming.given(context, "probe")
    if no_probes and probes_chosen:
        raise UsageError("--probe and --no-probes contradict each other; leave one of them out")
    with_probes = not no_probes and (probes_chosen or not cases_chosen)
    return cases_chosen or not probes_chosen, (probe or tuple(PROBES)) if with_probes else ()


def _exit_code(report: Report) -> int:
    code = exit_code(report)
    for row in report.variants:
        if row.verdict == "error" and not row.was_run:
            click.echo(f"softcheck: {row.name}: {row.reason}", err=True)
    for error in report.errors:
        click.echo(f"softcheck: {error}", err=True)
    if code == 3:
        click.echo(
            "softcheck: nothing was run: no selected variant covers a selected case or probe; see --dtype, --case, --probe",
            err=True,
        )
    return code


def _save(run: Run) -> None:
    """Adds generated cases that failed to a file of the regressions, and says of each that it was saved, or why not."""
    target = Path("corpora") / "regressions" / "generated.jsonl"
    failures = [found.failure for found in run.generated if found.failure is not None]
    for failure in failures:
        kind = failure.measurement.violations[0].kind
        case = named(failure.case, None, f"{failure.variant}: {kind}", ())
        try:
            add(case, target)
            click.echo(f"softcheck: saved {case.id} in {target}", err=True)
        except UsageError as error:
            click.echo(f"softcheck: {case.id} not saved: {error}", err=True)
    if not failures:
        click.echo("softcheck: nothing to save: no generated case failed", err=True)
