"""``softcheck exhaust``: judge every input of one, two or three columns."""

import contextlib
import re
import sys
from pathlib import Path
from typing import Annotated

import click

from softcheck import __version__
from softcheck.cases.exhaustive import Domain, Kind, domain
from softcheck.cli import progress
from softcheck.cli.command import command
from softcheck.cli.options import Cluster, Dtype, Jobs, Names, Output, opened, output_as
from softcheck.errors import UsageError
from softcheck.judge.measurement import unmeasured
from softcheck.report.build import build, command_line, exit_code
from softcheck.report.findings import row_command
from softcheck.report.formats import FORMATS
from softcheck.run.exhaust import Exhausted, Parts, exhaust, rows_of_a_part
from softcheck.run.first_look import Look, look, show_any_order
from softcheck.run.journal import RunHeader, fingerprints, read_header
from softcheck.run.model import Run, RunOptions
from softcheck.run.process import DeviceChoice
from softcheck.run.session import Session
from softcheck.variants.declaration import Declaration

_FOLDER = Path(".softcheck")
_MOST_WITHOUT_A_GPU = 2**32


@command("exhaust")
def exhaust_command(
    *,
    names: Names,
    dtype: Dtype = "float16",
    columns: Annotated[int, click.IntRange(1, 3)] = 1,
    differences: bool = False,
    any_order: bool = False,
    sample_first: Annotated[int | None, click.IntRange(min=1)] = None,
    resume: bool = False,
    journal: Path | None = None,
    device: DeviceChoice = "auto",
    cluster: Cluster,
    jobs: Jobs = None,
    output: Annotated[Output, output_as(FORMATS)],
) -> None:
    """Judge every row of one to three columns in a 16-bit format; the maximum found is then the maximum there is.

    One column shows what becomes of NaN, infinities and masks; any finite logit gives 1, so what rounds or reads lanes
    beyond the row shows in pairs.

    A few hundred adversarial rows are judged first; what they show, and how long the rest will take, stands on standard error before
    the rest begins. Where the variant refuses rows of that many columns, nothing is run, and the exit code is 3.

    A variant whose first five parts all end their process is given up; what was not run is a finding, and the exit code 1.

    Without a GPU, pairs are taken from a sub-lattice of patterns at the edges of binades.
    """
    if journal is not None and len(names) > 1:
        raise UsageError("--journal is for one variant; leave it out and each gets its own below .softcheck")
    if differences and any_order:
        raise UsageError("--differences are rows of their own; leave --any-order out")
    device = cluster.device(device)
    kind: Kind = "differences" if differences else "ascending" if any_order else "rows"
    domain(dtype, columns, kind, sample_first)
    with (
        opened(cluster, names, jobs) as devices,
        contextlib.closing(Session(device, jobs=jobs, devices=devices)) as session,
    ):
        lattice = columns > 1 and kind == "rows" and session.ready.backend == "interpreter"
        judged = domain(dtype, columns, "lattice" if lattice else kind, sample_first)
        if any_order and session.ready.backend == "interpreter" and judged.first > _MOST_WITHOUT_A_GPU:
            raise UsageError(
                f"--any-order: {judged.first:,} rows need a GPU; judge the first ones with --sample-first N, or leave --any-order "
                "out for a sub-lattice"
            )
        notes = [f"{judged.describe()}; a GPU judges every row"] if lattice else []
        results = [_one(session, name, judged, journal, notes, resume=resume) for name in names]
    notes += [
        f"{result.variant}: all {result.domain.total:,} rows would take about "
        f"{result.domain.total / max(1.0, result.rows_per_second):,.0f} s at this speed"
        for result in results
        if result.domain.first < result.domain.total and result.left_out is None and result.refused is None
    ]
    run = Run(
        options=RunOptions(variants=names, dtypes=(dtype,), cases=(), whole_corpus=False),
        ready=session.ready,
        declarations={result.variant: result.declaration for result in results},
        facts=session.facts,
        exhausted=results,
        notes=notes,
        seconds=sum(result.seconds for result in results),
    )
    report = build(run, command=command_line())
    output.write(report)
    sys.exit(exit_code(report))


def _one(
    session: Session, name: str, judged: Domain, path: Path | None, notes: list[str], *, resume: bool
) -> Exhausted:
    safe = re.sub(r"[^\w.-]+", "_", name)
    journal = path or _FOLDER / f"exhaust-{safe}-{judged.kind}-{judged.dtype}-{judged.columns}.journal"
    if resume and journal.exists():
        begun = read_header(journal, RunHeader)
        if begun.asked.get("variant") == name and begun.fact is not None:
            session.know(name, begun.fact)
    declaration = session.load(name)
    if isinstance(declaration, str):
        raise UsageError(f"{name}: {declaration}")
    if judged.dtype not in declaration.dtypes:
        raise UsageError(f"{name} declares {', '.join(declaration.dtypes)}, not {judged.dtype}")
    if (limit := declaration.column_limit(judged.dtype)) is not None and judged.columns > limit:
        return _nothing(name, declaration, judged, f"it declares max_columns={limit}")
    if judged.kind == "ascending":
        notes.append(show_any_order(session, name, declaration, judged.dtype, judged.columns))
    rows = rows_of_a_part(judged, session.ready.backend)
    header = RunHeader(
        softcheck=__version__,
        ready=session.ready,
        asked={"variant": name, "domain": judged.describe(), "rows of a part": rows},
        sources=fingerprints([name]),
        fact=session.facts.get(name),
    )
    kept = Parts(journal, header, judged, rows, resume=resume)
    try:
        first = look(session, name, declaration, judged)
        if (refusal := first.refusal()) is None:
            _tell(session, declaration, judged, first, judged.first - kept.rows)
            with progress.shown() as events:
                events.stage(f"{name}, {judged.describe()}")
                found = exhaust(session, name, declaration, judged, kept, progress=events.progress)
            refusal = first.refusal(kept.measurements)
        if refusal is not None:
            found = _nothing(name, declaration, judged, refusal.words)
    except KeyboardInterrupt:
        click.echo(f"softcheck: interrupted; go on with --resume ({kept.rows:,} rows are in {kept.path})", err=True)
        session.close()
        sys.exit(130)
    finally:
        kept.close()
    kept.path.unlink()
    return found


def _nothing(name: str, declaration: Declaration, judged: Domain, why: str) -> Exhausted:
    none = unmeasured((0, judged.columns), ())
    return Exhausted(name, declaration, judged, none, 0.0, refused=why)


def _tell(session: Session, declaration: Declaration, judged: Domain, first: Look, left: int) -> None:
    """Says on standard error what the adversarial rows came to, and under the interpreter how long the others will take."""
    if first.result is None:
        return
    name, backend = first.result.variant, session.ready.backend
    case_id = f"exhaustive/{judged.kind}-of-{judged.columns}/{judged.dtype}"
    found = [v for v in first.violations if declaration.explanation(v, case_id, judged.dtype, backend) is None]
    for violation in found:
        again = "" if violation.row is None else f"; {row_command(name, judged, violation.row)}"
        click.echo(f"softcheck: {name} {judged.dtype}: {violation.kind}: {violation.message}{again}", err=True)
    time_left = ""
    if backend == "interpreter" and left:
        time_left = f"; {left:,} rows will take about {first.seconds_for(left, session.jobs):,.0f} s"
    verdict = "fail" if found else "pass"
    click.echo(
        f"softcheck: {name} {judged.dtype}: {verdict} so far, on {len(first.rows)} adversarial rows{time_left}",
        err=True,
    )
