"""``softcheck search``: look for the rows with the largest error."""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec

from softcheck.cli import progress
from softcheck.cli.clusters import ClusterChoice, cluster_options, opened
from softcheck.cli.config import LONGEST, ConfiguredCommand, NumberRange, dtype_option
from softcheck.cli.options import (
    INTERRUPTED,
    device_option,
    format_option,
    output_option,
    save_case,
    variant_options,
)
from softcheck.cli.seeding import seed_option
from softcheck.errors import SoftcheckError
from softcheck.report import step_summary
from softcheck.report.build import command_line, exit_code
from softcheck.report.formats import FORMATS, render
from softcheck.report.model import Report
from softcheck.report.output import check_writable, display_of, write
from softcheck.report.search import TAG, build, kept, origin
from softcheck.run.interruption import Interruption
from softcheck.run.model import Events
from softcheck.run.pool import Job, Lane, spread
from softcheck.run.process import DeviceChoice
from softcheck.run.protocol import Searching, SearchOptions
from softcheck.run.regression import named
from softcheck.run.search import SEARCHED, SearchOutcome, search
from softcheck.run.session import Session
from softcheck.search.objective import Objective

_SECONDS = 30.0
_TARGET = Path("corpora") / "regressions" / "search.jsonl"


@click.command("search", cls=ConfiguredCommand)
@variant_options()
@click.option(
    "--dtype", default="float32", callback=dtype_option, show_default=True, help=f"One of {', '.join(SEARCHED)}."
)
@click.option("--columns", type=click.IntRange(1, 1 << 20), default=1024, show_default=True)
@click.option(
    "--objective",
    type=click.Choice(["bound", "ulp"]),
    default="bound",
    show_default=True,
    help="Look for the largest error over bound, or the largest ULP error.",
)
@click.option(
    "--seconds",
    type=NumberRange(min=0, max=LONGEST),
    help=f"How long each variant is searched; {_SECONDS:g} if left out.",
)
@click.option(
    "--rounds", type=click.IntRange(min=1), help="Stop after N launches of evolved rows; the same result every time."
)
@click.option(
    "--rows", type=click.IntRange(min=8), metavar="N", help="Rows per launch; what suits the device if left out."
)
@seed_option
@click.option("--shrink/--no-shrink", default=True, help="Look for a smaller input that is nearly as bad.")
@click.option("--save", is_flag=True, help="Add what was found to ./corpora/regressions.")
@device_option
@cluster_options
@click.option(
    "--time-limit", type=NumberRange(min=1, max=LONGEST), default=120.0, show_default=True, help="Seconds per call."
)
@format_option(FORMATS)
@output_option
def command(
    *,
    names: tuple[str, ...],
    dtype: str,
    columns: int,
    objective: Objective,
    seconds: float | None,
    rounds: int | None,
    rows: int | None,
    seed: int,
    shrink: bool,
    save: bool,
    device: DeviceChoice,
    cluster: ClusterChoice,
    time_limit: float,
    output_format: str,
    output: str,
) -> None:
    """Look for the rows on which a variant errs most, by evolution, beside random sampling of as many elements.

    The figures are lower bounds: another search may find worse rows. Ctrl-C ends the search and reports what it has found.
    """
    check_writable(output)
    device = cluster.device(device)
    interruption = Interruption("\nsoftcheck: ending after this round; Ctrl-C again ends at once\n")
    found: dict[str, SearchOutcome | str] = {}

    def job(session: Session, name: str, events: Events) -> Job[tuple[str, SearchOutcome | str]]:
        options = SearchOptions(
            variant=name,
            dtype=dtype,
            columns=columns,
            objective=objective,
            seconds=_SECONDS if seconds is None and rounds is None else seconds,
            rounds=rounds,
            rows=rows,
            seed=seed,
            shrinks=shrink,
        )

        def work(emit: Callable[[tuple[str, SearchOutcome | str]], None]) -> None:
            if interruption.is_set:
                return
            with session.on_one_device() as own:
                declaration = own.load(name, (dtype,))
                if isinstance(declaration, str):
                    emit((name, declaration))
                else:
                    emit((name, search(own, options, declaration, _watching(events, options), interruption)))

        return Job(name, work)

    with (
        opened(cluster, names) as devices,
        contextlib.closing(Session(device, jobs=1, seconds_per_call=time_limit, devices=devices)) as session,
        progress.shown() as events,
        interruption.watching(),
    ):
        jobs = [job(session, name, events) for name in names]
        errors = spread(session, [Lane(jobs, session.places)], lambda item: found.update([item]), lambda *_: None)
    if errors:
        raise SoftcheckError(errors[0])
    outcomes = [one for name in names if isinstance(one := found.get(name), SearchOutcome)]
    refused = {(name, dtype): one for name in names if isinstance(one := found.get(name), str)}
    report = build(outcomes, session.ready, command=command_line(), refused=refused)
    if interruption.is_set:
        report = _cut_short(report, [name for name in names if name not in found])
    write(render(report, output_format, display_of(output)), output)
    step_summary.add(lambda: render(report, "markdown"))
    if save:
        _save(outcomes)
    for (name, _), reason in refused.items():
        click.echo(f"softcheck: {name}: {reason}", err=True)
    sys.exit(INTERRUPTED if interruption.is_set else exit_code(report))


def _cut_short(report: Report, left: Sequence[str]) -> Report:
    """The report of a search that Ctrl-C ended; ``left`` were not searched at all."""
    notes = ["interrupted: the figures are of what had been found by then"]
    notes += [f"not searched: {', '.join(left)}"] if left else []
    return msgspec.structs.replace(report, interrupted=True, notes=(*report.notes, *notes))


def _watching(events: Events, options: SearchOptions) -> Callable[[Searching], None]:
    """Shows rounds, or seconds where only they are limited, and the largest figures so far."""
    begun = time.monotonic()
    shown = ""

    def show(state: Searching) -> None:
        nonlocal shown
        text = f"{options.variant} {options.dtype}: search {state.found:.4g}, random {state.random:.4g}"
        if text != shown:
            shown = text
            events.stage(text)
        if options.rounds is not None:
            events.progress(state.rounds, options.rounds)
        else:
            events.progress(int(time.monotonic() - begun), math.ceil(options.seconds or 0.0))

    return show


def _save(outcomes: list[SearchOutcome]) -> None:
    for outcome in outcomes:
        found = kept(outcome)
        if found is None:
            click.echo(f"softcheck: {outcome.options.variant}: nothing to save: no row was judged", err=True)
            continue
        save_case(named(found, None, origin(outcome), (TAG,)), _TARGET)
