"""``softcheck render``: draw a saved report anew, in any format, without running anything."""

import click

from softcheck.report.formats import FORMATS, render
from softcheck.report.json_format import load
from softcheck.report.output import check_writable, display_of, write


@click.command("render")
@click.argument("result", metavar="RESULT.json")
@click.option("--format", "output_format", type=click.Choice(list(FORMATS)), default="table", show_default=True)
@click.option("--output", default="-", metavar="FILE|-", help="Where it goes; standard output if left out.")
def command(result: str, output_format: str, output: str) -> None:
    """Draw a report that --format json saved, in another format."""
    check_writable(output)
    write(render(load(result), output_format, display_of(output)), output)
