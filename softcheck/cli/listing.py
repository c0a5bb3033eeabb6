"""``softcheck list``: names of everything that can be run, and of the oracles and formats."""

from collections.abc import Callable

import click

from oracles import ORACLES
from softcheck.cases.corpus import default_corpora, load
from softcheck.cases.families import FAMILIES
from softcheck.cli.config import ConfiguredCommand
from softcheck.operations.registry import OPERATIONS
from softcheck.probes.registry import PROBES
from softcheck.report.formats import FORMATS
from softcheck.run.regression import FAMILY as REGRESSION
from softcheck.variants.descriptions import descriptions
from softcheck.variants.registry import BUILTIN_OF

_KINDS = ("variants", "operations", "families", "corpora", "probes", "oracles", "formats")


@click.command("list", cls=ConfiguredCommand)
@click.argument("kind", type=click.Choice(_KINDS), required=False)
def command(kind: str | None) -> None:
    """Show variants, operations, case families, corpora, probes, oracles and output formats: all, or those of one KIND."""
    for name in _KINDS if kind is None else (kind,):
        click.secho(name, bold=True)
        for line in _LINES[name]():
            click.echo(f"  {line}")


_LINES: dict[str, Callable[[], list[str]]] = {
    "variants": lambda: [f"{name:<25}{said}" for name, said in descriptions().items()],
    "operations": lambda: [
        f"{name:<25}{', '.join(BUILTIN_OF.get(name, ())) or 'no built-in variant'}" for name in OPERATIONS
    ],
    "families": lambda: [
        *(f"{name:<25}{family.description}" for name, family in FAMILIES.items()),
        f"{REGRESSION:<25}failures that were reported or found, saved as cases",
    ],
    "corpora": lambda: [f"{name:<25}{len(load([name]))} cases" for name in default_corpora()],
    "probes": lambda: [f"{name:<25}{looks_for}" for name, looks_for in PROBES.items()],
    "oracles": lambda: [f"{name:<25}{oracle.description}" for name, oracle in ORACLES.items()],
    "formats": lambda: list(FORMATS),
}
