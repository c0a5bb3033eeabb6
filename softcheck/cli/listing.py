"""Commands without a run: ``list``, ``explain``, ``compare`` and ``render``."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import click

from oracles import ORACLES
from softcheck.cases.corpus import default_corpora, load
from softcheck.cases.families import FAMILIES, OF_OPERATIONS
from softcheck.cli.command import Argument, command
from softcheck.cli.options import NOTHING_RAN, Limits, Output, output_as
from softcheck.errors import UsageError
from softcheck.explain import explanation_of, files, pages
from softcheck.operations.registry import OPERATIONS
from softcheck.probes.registry import described
from softcheck.report.compare import compare
from softcheck.report.formats import COMPARISON_FORMATS, FORMATS, SPEED_FORMATS, WITH_BASELINE
from softcheck.report.json_format import load_any, load_saved
from softcheck.report.model import Report
from softcheck.run.regression import FAMILY as REGRESSION
from softcheck.variants.registry import BUILTIN_OF, descriptions

_KINDS = ("variants", "operations", "families", "corpora", "probes", "oracles", "formats")


@command("list")
def show(kind: Annotated[str | None, click.Choice(_KINDS), Argument("[KIND]")] = None) -> None:
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


@command("explain")
def explain(
    names: Annotated[tuple[str, ...], Argument("[KIND|VERDICT|PROBE|COLUMN]...")], output_dir: Path | None = None
) -> None:
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


@command("compare")
def compare_command(
    *,
    old: Annotated[str, Argument("OLD.json")],
    new: Annotated[str, Argument("NEW.json")],
    limits: Limits,
    output: Annotated[Output, output_as(COMPARISON_FORMATS)],
) -> None:
    """Compare two results of report or bench; exit 1 on a regression beyond the limits, 3 if they share nothing.

    Speed is compared relative to the device copy of each run. What is ambiguous is neither a pass nor a fail.
    """
    found = compare(load_any(old), load_any(new), limits)
    output.write(found)
    if not found.changes:
        click.echo("softcheck: nothing was compared: the results have no variant and no shape in common", err=True)
        sys.exit(NOTHING_RAN)
    sys.exit(1 if found.regressions else 0)


@command("render")
def render_command(
    *,
    result: Annotated[str, Argument("RESULT.json")],
    output: Annotated[Output, output_as({**FORMATS, **SPEED_FORMATS})],
    baseline: str | None = None,
    limits: Limits,
) -> None:
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
