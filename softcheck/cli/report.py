"""``softcheck report``: judge variants and draw the report."""

import sys
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import click

from oracles.formats import FORMATS as DTYPES
from softcheck.cases.case import refuse_changed
from softcheck.cases.corpus import default_corpora, load, select
from softcheck.cases.corpus_edit import add
from softcheck.cli import progress, resuming
from softcheck.cli.command import Gathered, Word, command
from softcheck.cli.config import NumberRange
from softcheck.cli.options import (
    INTERRUPTED,
    NOTHING_RAN,
    BuiltinNames,
    Cluster,
    Dtypes,
    Jobs,
    Limits,
    Output,
    Seed,
    TimeLimit,
    opened,
    output_as,
)
from softcheck.errors import UsageError
from softcheck.probes.registry import MEETINGS, PROBES, Effort, check_name
from softcheck.report import ci
from softcheck.report.build import build, command_line, exit_code
from softcheck.report.compare import Comparison, compare
from softcheck.report.formats import FORMATS, render
from softcheck.report.json_format import load_any
from softcheck.report.model import Report
from softcheck.report.output import write
from softcheck.report.traces import with_traces
from softcheck.run import forking
from softcheck.run.check import check, planned
from softcheck.run.model import Run, RunChoices, RunOptions
from softcheck.run.patience import HANG_SECONDS
from softcheck.run.process import DeviceChoice, can_check_heap
from softcheck.run.regression import named


@command("report")
def report_command(
    *,
    names: BuiltinNames,
    dtype: Dtypes = (),
    case: tuple[str, ...] = (),
    family: tuple[str, ...] = (),
    tag: tuple[str, ...] = (),
    corpus: tuple[str, ...] = (),
    probe: Annotated[tuple[str, ...], Word(check_name)] = (),
    effort: Effort = "normal",
    exhaustive: bool | None = None,
    device: DeviceChoice = "auto",
    cluster: Cluster,
    no_probes: bool = False,
    quick: bool = False,
    save: bool = False,
    choices: Annotated[RunChoices, Gathered(RunChoices, {"require_coverage": NumberRange(min=0, max=100)})],
    dry_run: bool = False,
    timings: bool = False,
    seed: Seed = 0,
    jobs: Jobs = None,
    time_limit: TimeLimit = HANG_SECONDS,
    speed: bool = True,
    output: Annotated[Output, output_as(FORMATS)],
    trace: bool | None = None,
    baseline: str | None = None,
    limits: Limits,
    journal: Path | None = None,
    resume: Annotated[Path | None, {"callback": resuming.take_up, "is_eager": True}] = None,
) -> None:
    """Judge variants, all built-in ones if none is named, on the corpora and by the probes, and print a verdict table.

    Without a GPU the kernels run under Triton's interpreter: their logic is checked, not the GPU's arithmetic.
    """
    device = cluster.device(device)
    if cluster.is_wanted and choices.in_order:
        raise UsageError("--in-order runs all calls in one process; leave out --gpus, --scheduler and --workers")
    if not (choices.check_heap or cluster.is_wanted):
        forking.prepare(device)
    before = None if baseline is None else load_any(baseline)
    dtypes = dtype or tuple(DTYPES)
    with_cases, probes = (False, (MEETINGS,)) if choices.axis is not None else _stages(probe, no_probes=no_probes)
    cases = (
        select(
            load(corpus or default_corpora()),
            dtypes=dtypes,
            globs=case,
            families=family,
            tags=tag,
        )
        if with_cases
        else []
    )
    refuse_changed(cases)
    if choices.in_order:
        cases.sort(key=lambda each: next((i for i, glob in enumerate(case) if fnmatchcase(each.id, glob)), 0))
    if choices.check_heap and not can_check_heap():
        raise UsageError("--check-heap: this machine has no libc_malloc_debug.so.0 beside its C library; leave it out")
    whole_corpus = with_cases and not (case or family or tag or corpus)
    options = RunOptions(
        variants=names,
        dtypes=dtypes,
        cases=tuple(cases),
        whole_corpus=whole_corpus,
        probes=probes,
        effort="quick" if quick else effort,
        device=device,
        jobs=jobs,
        exhaustive=exhaustive is not False and (whole_corpus or exhaustive is True),
        speed=speed and with_cases,
        seconds_per_call=time_limit,
        seed=seed,
        **asdict(choices),
    )
    if dry_run:
        with progress.shown(corpus) as events:
            plans = planned(options, events)
        write("".join(f"{each}\n" for each in plans), output.path)
        sys.exit(NOTHING_RAN)
    keeping = resuming.keeping(click.get_current_context(), journal, resume)
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
    click.echo(render(comparison, "github" if output_format == "github" else "table"), err=True, nl=False)
    ci.add_step_summary(lambda: render(comparison, "markdown"))
    return bool(comparison.regressions)


_SLOWEST = 5
"""Probes whose seconds ``--timings`` prints."""


def _stages(probe: tuple[str, ...], *, no_probes: bool) -> tuple[bool, tuple[str, ...]]:
    """Returns True if cases are run, and the probes that are run: choosing one of them for this run leaves the other out."""
    context = click.get_current_context()
    cases_chosen = resuming.given(context, "case", "family", "tag", "corpus")
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
