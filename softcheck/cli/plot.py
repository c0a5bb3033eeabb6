"""``softcheck plot``: draw saved results as SVG and PNG."""

import sys
from pathlib import Path

import click

from softcheck.cli.config import ConfiguredCommand
from softcheck.errors import UsageError
from softcheck.report.json_format import load_any
from softcheck.report.plots import data, draw, style


@click.command("plot", cls=ConfiguredCommand)
@click.argument("results", nargs=-1, required=True, metavar="RESULT.json...")
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    show_default=True,
    help="Made if missing.",
)
def command(results: tuple[str, ...], output_dir: Path) -> None:
    """Draw what report, exhaust or bench saved with --format json; needs matplotlib (the plot extra).

    Speed and error along sweeps, accuracy against speed with its Pareto front, and histograms of ULP errors.
    """
    style.require()
    loaded = [load_any(path) for path in results]
    sweeps = data.sweeps(loaded)
    fields = _chosen(data.fields(loaded))
    histograms = data.histograms(loaded)
    if not (sweeps or fields or histograms):
        raise UsageError(
            f"{', '.join(results)}: nothing to draw, no timed shape and no ULP error; "
            "expected a result of bench, or of report with at least one judged variant"
        )
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--output-dir {output_dir}: {error.strerror}; name another folder") from None
    written = [path for sweep in sweeps for path in draw.speed(sweep, output_dir)]
    written += [path for sweep in sweeps if sweep.ulp for path in draw.ulp(sweep, output_dir)]
    written += [path for field in fields for path in draw.pareto(field, output_dir)]
    written += [path for dtype, bins in histograms.items() for path in draw.histogram(dtype, bins, output_dir)]
    for path in written:
        click.echo(path)
    sys.exit(0)


def _chosen(fields: list[data.Field]) -> list[data.Field]:
    chosen = data.chosen(fields)
    if len(chosen) < len(fields):
        click.echo(f"softcheck: {len(chosen)} of {len(fields)} shapes get a Pareto plot; name fewer for all", err=True)
    return chosen
