"""``softcheck render``: draw a saved report anew, in any format, without running anything."""

import click

from softcheck.cli.config import ConfiguredCommand
from softcheck.cli.options import limit_options, output_option
from softcheck.errors import UsageError
from softcheck.report.compare import Tolerances, compare
from softcheck.report.formats import FORMATS, SPEED_FORMATS, WITH_BASELINE, render, render_speed, render_trace
from softcheck.report.json_format import load_any, load_saved
from softcheck.report.model import Report, SpeedReport
from softcheck.report.output import check_writable, display_of, write
from softcheck.tracing.model import Trace


@click.command("render", cls=ConfiguredCommand)
@click.argument("result", metavar="RESULT.json")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(list({**FORMATS, **SPEED_FORMATS})),
    default="table",
    show_default=True,
)
@click.option("--baseline", metavar="FILE", help="Saved report whose comparison --format html draws beside this one's.")
@limit_options
@output_option
def command(*, result: str, output_format: str, baseline: str | None, limits: Tolerances, output: str) -> None:
    """Draw what report, exhaust, bench or trace saved with --format json, in another format."""
    check_writable(output)
    found = load_saved(result)
    if baseline is not None and (output_format not in WITH_BASELINE or not isinstance(found, Report)):
        raise UsageError(
            f"--baseline stands in a report's --format {' or '.join(WITH_BASELINE)} alone; "
            f"for other results and formats run: softcheck compare {baseline} {result}"
        )
    if isinstance(found, Trace):
        write(render_trace(found, output_format, display_of(output)), output)
    elif isinstance(found, SpeedReport):
        write(render_speed(found, output_format), output)
    else:
        comparison = None if baseline is None else compare(load_any(baseline), found, limits)
        write(render(found, output_format, display_of(output), comparison), output)
