"""``softcheck explain``: what a kind of finding, a verdict, a probe or a column means."""

import click

from softcheck.cli.config import ConfiguredCommand
from softcheck.explain import explanation_of, pages


@click.command("explain", cls=ConfiguredCommand)
@click.argument("names", nargs=-1, metavar="[KIND|VERDICT|PROBE|COLUMN]...")
def command(names: tuple[str, ...]) -> None:
    """Say what words of a report mean: the smallest kernel that shows it, the usual cause, the mend and the declaration.

    Without a name all words are listed.
    """
    if not names:
        for name, page in pages().items():
            click.echo(f"{name:<25}{page.meaning.partition('. ')[0]}")
    click.echo("\n".join(explanation_of(name).text(name) for name in names), nl=False)
