"""``softcheck explain``: what a kind of finding, a verdict, a probe or a column means."""

from pathlib import Path

import click

from softcheck.cli.config import ConfiguredCommand
from softcheck.explain import explanation_of, files, pages


@click.command("explain", cls=ConfiguredCommand)
@click.argument("names", nargs=-1, metavar="[KIND|VERDICT|PROBE|COLUMN]...")
@click.option("--output-dir", type=click.Path(path_type=Path), metavar="FOLDER", help="Write every word's page there.")
def command(names: tuple[str, ...], output_dir: Path | None) -> None:
    """Say what words of a report mean: the smallest kernel that shows it, the usual cause, the fix and the declaration.

    Without a name all words are listed.
    """
    if output_dir is not None:
        output_dir.mkdir(parents=True, exist_ok=True)
        for file, text in files().items():
            (output_dir / file).write_text(text, encoding="utf-8")
        return
    if not names:
        for name, page in pages().items():
            click.echo(f"{name:<25}{page.meaning.partition('. ')[0]}")
    click.echo("\n".join(explanation_of(name).text(name) for name in names), nl=False)
