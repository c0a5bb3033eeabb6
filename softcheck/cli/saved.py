"""``softcheck compare`` and ``softcheck render``: what became worse between two saved results, and one drawn anew, without a run."""

import sys

import click

from softcheck.cli.config import ConfiguredCommand
from softcheck.cli.options import NOTHING_RAN, Output, limit_options, output_options
from softcheck.errors import UsageError
from softcheck.report.compare import Tolerances, compare
from softcheck.report.formats import COMPARISON_FORMATS, FORMATS, SPEED_FORMATS, WITH_BASELINE
from softcheck.report.json_format import load_any, load_saved
from softcheck.report.model import Report


@click.command("compare", cls=ConfiguredCommand)
@click.argument("old", metavar="OLD.json")
@click.argument("new", metavar="NEW.json")
@limit_options
@output_options(COMPARISON_FORMATS)
def compare_command(*, old: str, new: str, limits: Tolerances, output: Output) -> None:
    """Compare two results of report or bench; exit 1 on a regression beyond the limits, 3 if they share nothing.

    Speed is compared relative to the device copy of each run. What is ambiguous is neither a pass nor a fail.
    """
    found = compare(load_any(old), load_any(new), limits)
    output.write(found)
    if not found.changes:
        click.echo("softcheck: nothing was compared: the results have no variant and no shape in common", err=True)
        sys.exit(NOTHING_RAN)
    sys.exit(1 if found.regressions else 0)


@click.command("render", cls=ConfiguredCommand)
@click.argument("result", metavar="RESULT.json")
@output_options({**FORMATS, **SPEED_FORMATS})
@click.option("--baseline", metavar="FILE", help="Saved report whose comparison --format html draws beside this one's.")
@limit_options
def render_command(*, result: str, baseline: str | None, limits: Tolerances, output: Output) -> None:
    """Draw what report, exhaust, bench or trace saved with --format json, in another format."""
    found = load_saved(result)
    if baseline is not None and (output.format not in WITH_BASELINE or not isinstance(found, Report)):
        raise UsageError(
            f"--baseline stands in a report's --format {' or '.join(WITH_BASELINE)} alone; "
            f"for other results and formats run: softcheck compare {baseline} {result}"
        )
    comparison = (
        compare(load_any(baseline), found, limits) if baseline is not None and isinstance(found, Report) else None
    )
    output.write(found, comparison, summary=False)
