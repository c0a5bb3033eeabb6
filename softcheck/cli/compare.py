"""``softcheck compare``: say what became worse between two saved results."""

import sys

import click

from softcheck.cli.config import ConfiguredCommand
from softcheck.cli.options import NOTHING_RAN, format_option, limit_options, output_option
from softcheck.report import ci
from softcheck.report.compare import Tolerances, compare
from softcheck.report.compare_text import FORMATS
from softcheck.report.json_format import load_any
from softcheck.report.output import check_writable, write


@click.command("compare", cls=ConfiguredCommand)
@click.argument("old", metavar="OLD.json")
@click.argument("new", metavar="NEW.json")
@limit_options
@format_option(FORMATS)
@output_option
def command(*, old: str, new: str, limits: Tolerances, output_format: str, output: str) -> None:
    """Compare two results of report or bench; exit 1 on a regression beyond the limits, 3 if they share nothing.

    Speed is compared relative to the device copy of each run. What is ambiguous is neither a pass nor a fail.
    """
    check_writable(output)
    found = compare(load_any(old), load_any(new), limits)
    write(FORMATS[output_format](found), output)
    ci.add_step_summary(lambda: FORMATS["markdown"](found))
    if not found.changes:
        click.echo("softcheck: nothing was compared: the results have no variant and no shape in common", err=True)
        sys.exit(NOTHING_RAN)
    sys.exit(1 if found.regressions else 0)
