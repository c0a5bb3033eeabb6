"""``softcheck list`` and ``softcheck explain``: names of everything that can be run, and what words of a report mean."""

from collections.abc import Callable, Mapping
from pathlib import Path

import click

from oracles import ORACLES
from softcheck.cases.corpus import default_corpora, load
from softcheck.cases.families import FAMILIES, OF_OPERATIONS
from softcheck.cli.config import ConfiguredCommand
from softcheck.explain import explanation_of, files, pages
from softcheck.operations.registry import OPERATIONS
from softcheck.probes.registry import described
from softcheck.report.formats import FORMATS
from softcheck.run.regression import FAMILY as REGRESSION
from softcheck.variants.registry import BUILTIN_OF, descriptions

_KINDS = ("variants", "operations", "families", "corpora", "probes", "oracles", "formats")


@click.command("list", cls=ConfiguredCommand)
@click.argument("kind", type=click.Choice(_KINDS), required=False)
def show(kind: str | None) -> None:
    """Show variants, operations, case families, corpora, probes, oracles and output formats: all, or those of one KIND."""
    for name in _KINDS if kind is None else (kind,):
        click.secho(name, bold=True)
        for line in _LINES[name]():
            click.echo(f"  {line}")


_WIDTH = 25
"""Least width of the names."""


def _aligned(said: Mapping[str, str]) -> list[str]:
    width = max(_WIDTH, *(len(name) + 2 for name in said))
    return [f"{name:<{width}}{words}" for name, words in said.items()]


def _families() -> dict[str, str]:
    own = {
        name: f"{description} ({operation} alone)"
        for operation, families in OF_OPERATIONS.items()
        for name, description in families.items()
    }
    of_all = {name: family.description for name, family in FAMILIES.items()}
    return {**of_all, **own, REGRESSION: "failures that were reported or found, saved as cases"}


_LINES: dict[str, Callable[[], list[str]]] = {
    "variants": lambda: _aligned(descriptions()),
    "operations": lambda: _aligned(
        {name: ", ".join(BUILTIN_OF.get(name, ())) or "no built-in variant" for name in OPERATIONS}
    ),
    "families": lambda: _aligned(_families()),
    "corpora": lambda: _aligned({name: f"{len(load([name]))} cases" for name in default_corpora()}),
    "probes": lambda: _aligned(described()),
    "oracles": lambda: _aligned({name: oracle.description for name, oracle in ORACLES.items()}),
    "formats": lambda: list(FORMATS),
}


@click.command("explain", cls=ConfiguredCommand)
@click.argument("names", nargs=-1, metavar="[KIND|VERDICT|PROBE|COLUMN]...")
@click.option("--output-dir", type=click.Path(path_type=Path), metavar="FOLDER", help="Write every word's page there.")
def explain(names: tuple[str, ...], output_dir: Path | None) -> None:
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
