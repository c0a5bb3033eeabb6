"""Commands without a run: ``list``, ``explain``, ``compare`` and ``render``."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from oracles import ORACLES
from softcheck.cases.corpus import default_corpora, load
from softcheck.cases.families import FAMILIES, OF_OPERATIONS
from softcheck.cli.config import ConfiguredCommand
from softcheck.cli.options import NOTHING_RAN, Output, limit_options, output_options
from softcheck.errors import UsageError
from softcheck.explain import explanation_of, files, pages
from softcheck.operations.registry import OPERATIONS
from softcheck.probes.registry import described
from softcheck.report.compare import Tolerances, compare
from softcheck.report.formats import COMPARISON_FORMATS, FORMATS, SPEED_FORMATS, WITH_BASELINE
from softcheck.report.json_format import load_any, load_saved
from softcheck.report.model import Report
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
