"""``softcheck regimes``: the paths that variants take, for which shapes, and what was judged in each."""

import contextlib
import sys

import click

from softcheck.cli import progress
from softcheck.cli.config import ConfiguredCommand, dtype_option
from softcheck.cli.options import NOTHING_RAN, device_option, output_option, seed_option, variant_options
from softcheck.probes.outcome import Conclusion, coverage_of
from softcheck.report.output import check_writable, write
from softcheck.run.probing import run_probe
from softcheck.run.process import DeviceChoice
from softcheck.run.protocol import ProbeTask
from softcheck.run.session import Session

_PROBE = "regimes"


@click.command(_PROBE, cls=ConfiguredCommand)
@variant_options()
@click.option("--dtype", default="float32", callback=dtype_option, show_default=True, help="The inputs' format.")
@seed_option
@click.option("--quick", is_flag=True, help="Make only the two trials that show most, in half of the time.")
@device_option
@output_option
def command(
    *,
    names: tuple[str, ...],
    dtype: str,
    seed: int,
    quick: bool,
    device: DeviceChoice,
    output: str,
) -> None:
    """Show each variant's regimes: shapes, kernels with their constants, what was judged, and lines that never ran.

    A regime is a set of shapes on which calls launch the same kernels, with the same constants but for those that
    follow the input's size, and run the same lines. The report's probe of the same name judges each regime.
    """
    check_writable(output)
    texts, broken = [], False
    with contextlib.closing(Session(device, jobs=1)) as session, progress.shown() as events:
        for name in names:
            events.stage(f"exploring {name}")
            declaration = session.load(name, (dtype,))
            if isinstance(declaration, str):
                click.echo(f"softcheck: {name}: {declaration}", err=True)
                continue
            if dtype not in declaration.dtypes:
                click.echo(f"softcheck: {name} declares {', '.join(declaration.dtypes)}, not {dtype}", err=True)
                continue
            result = run_probe(
                session,
                ProbeTask(variant=name, dtype=dtype, probe=_PROBE, effort="quick" if quick else "normal", seed=seed),
            )
            if result is not None:
                texts.append(_text(name, dtype, result.conclusion))
                found = ((shown.violation, result.case_id(shown.label)) for shown in result.conclusion.findings)
                backend = session.ready.backend
                broken |= any(declaration.explanation(v, case_id, dtype, backend) is None for v, case_id in found)
    write("\n".join(texts), output)
    sys.exit(NOTHING_RAN if not texts else int(broken))


def _text(name: str, dtype: str, found: Conclusion) -> str:
    lines = [f"{name}, {dtype}: {len(found.regimes)} regime{'s' * (len(found.regimes) != 1)}"]
    for regime in found.regimes:
        rows, columns = regime.narrowest
        lines += [
            f"  {regime.words}",
            f"    launches {', '.join(regime.launches) or 'no Triton kernel'}",
            f"    smallest {rows} x {columns}; judged {regime.shapes} shapes, {regime.rows:,} rows, {regime.elements:,} elements",
        ]
        if not regime.shapes:
            lines.append("    not judged: its shapes take longer than the limit of time")
    if not found.regimes:
        lines.append("  none was found: the function could not be called without launching its kernels")
    coverage = coverage_of([found])
    if coverage is not None:
        lines.append(f"  ran {coverage.run} of {coverage.lines} lines of its own code")
        lines += [f"    never run: {words}" for words in coverage.never]
        if coverage.conditions:
            lines.append(f"  {coverage.both_ways} of {coverage.conditions} conditions came out both ways")
            lines += [f"    {words}" for words in coverage.one_sided]
    lines += [f"  {shown.violation.kind}: {shown.violation.message}" for shown in found.findings]
    return "\n".join(lines) + "\n"
