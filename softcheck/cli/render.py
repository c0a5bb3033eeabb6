"""``softcheck render``: draw a saved report anew, in any format, without running anything."""

import click

from softcheck.cli.config import ConfiguredCommand
from softcheck.cli.options import output_option
from softcheck.report.formats import FORMATS, SPEED_FORMATS, render, render_speed
from softcheck.report.json_format import load_any
from softcheck.report.model import SpeedReport
from softcheck.report.output import check_writable, display_of, write


@click.command("render", cls=ConfiguredCommand)
@click.argument("result", metavar="RESULT.json")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(list({**FORMATS, **SPEED_FORMATS})),
    default="table",
    show_default=True,
)
@output_option
def command(result: str, output_format: str, output: str) -> None:
    """Draw what report, exhaust, search or bench saved with --format json, in another format; csv is for bench alone."""
    check_writable(output)
    found = load_any(result)
    if isinstance(found, SpeedReport):
        write(render_speed(found, output_format), output)
    else:
        write(render(found, output_format, display_of(output)), output)
