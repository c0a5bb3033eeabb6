"""``--save``: what a command has found goes to a file of the regressions."""

from pathlib import Path

import click

from softcheck.cases.case import Case
from softcheck.cases.corpus_edit import add
from softcheck.errors import UsageError


def save_case(case: Case, target: Path) -> None:
    """Adds a case to a file, and says on standard error that it was saved, or why not."""
    try:
        add(case, target)
        click.echo(f"softcheck: saved {case.id} in {target}", err=True)
    except UsageError as error:
        click.echo(f"softcheck: {case.id} not saved: {error}", err=True)
