"""``softcheck regimes``: the paths that variants take, for which shapes, and what was judged in each."""

import sys

import click

from softcheck.cli import progress
from softcheck.cli.command import command
from softcheck.cli.options import Dtype, Names, Seed
from softcheck.report.build import build, command_line, exit_code
from softcheck.report.figures import plural
from softcheck.report.model import VariantResult
from softcheck.report.output import check_writable, write
from softcheck.run.check import check
from softcheck.run.model import RunOptions
from softcheck.run.process import DeviceChoice

_PROBE = "regimes"


@command(_PROBE)
def regimes(
    *,
    names: Names,
    dtype: Dtype = "float32",
    seed: Seed = 0,
    quick: bool = False,
    device: DeviceChoice = "auto",
    output: str = "-",
) -> None:
    """Show each variant's regimes: shapes, kernels with their constants, what was judged, and lines that never ran.

    A regime is a set of shapes on which calls launch the same kernels, with the same constants but for those that
    follow the input's size, and run the same lines. The report's probe of the same name judges each regime.
    """
    check_writable(output)
    options = RunOptions(
        variants=names,
        dtypes=(dtype,),
        cases=(),
        whole_corpus=False,
        probes=(_PROBE,),
        effort="quick" if quick else "normal",
        device=device,
        seed=seed,
        speed=False,
    )
    with progress.shown() as events:
        run = check(options, events)
    report = build(run, command=command_line())
    for row in report.variants:
        if row.reason is not None:
            click.echo(f"softcheck: {row.name}: {row.reason}", err=True)
    write("\n".join(_text(row) for row in report.variants if row.was_run), output)
    sys.exit(exit_code(report))


def _text(row: VariantResult) -> str:
    lines = [f"{row.name}, {row.dtype}: {plural(len(row.seen_regimes), 'regime')}"]
    for regime in row.seen_regimes:
        rows, columns = regime.narrowest
        lines += [
            f"  {regime.words}",
            f"    launches {', '.join(regime.launches) or 'no Triton kernel'}",
            f"    smallest {rows} x {columns}; judged {regime.shapes} shapes, {regime.rows:,} rows, {regime.elements:,} elements",
        ]
        if not regime.shapes:
            lines.append("    not judged: its shapes cost more than the budget")
    if not row.seen_regimes:
        lines.append("  none was found: the function could not be called without launching its kernels")
    if (coverage := row.coverage) is not None:
        lines.append(f"  ran {coverage.run} of {coverage.lines} lines of its own code")
        lines += [f"    never run: {words}" for words in coverage.never]
        if coverage.conditions:
            lines.append(f"  {coverage.both_ways} of {coverage.conditions} conditions came out both ways")
            lines += [f"    {words}" for words in coverage.one_sided]
    return "\n".join([*lines, *(f"  {finding.kind}: {finding.message}" for finding in row.findings)]) + "\n"
