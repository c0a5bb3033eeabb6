"""``softcheck corpus``: add, list, show, verify and run saved cases."""

import contextlib
import shlex
from pathlib import Path
from typing import Annotated

import click
import numpy as np

from oracles.formats import bits_hex, decode
from softcheck.cases.case import Case, check_name
from softcheck.cases.corpus import corpus_files, decode_case, default_corpora, encode_case, load, select, verify
from softcheck.cases.corpus_edit import AlreadySavedError, add
from softcheck.cases.dtypes import known_dtype
from softcheck.cases.importing import beside as beside_matrix
from softcheck.cases.importing import case_from_bits, case_from_hex, read_array
from softcheck.cli.command import Argument, Word, command
from softcheck.cli.config import SuggestingGroup
from softcheck.cli.options import Corpora, OptionalNames
from softcheck.contract import FindingKind
from softcheck.errors import UsageError, near_matches
from softcheck.operations.registry import OPERATIONS, operation
from softcheck.report.json_format import load as load_report
from softcheck.report.model import Finding
from softcheck.run.process import DeviceChoice
from softcheck.run.regression import FAMILY, Shrunk, named, shrink_failure
from softcheck.run.session import Session

_DEFAULT_FILE = Path("corpora") / "regressions" / "regressions.jsonl"


@click.group("corpus", cls=SuggestingGroup)
def corpus() -> None:
    """Add, list, show, verify and run saved cases."""


@command("add", corpus)
def add_command(
    *,
    report: str | None = None,
    finding: str | None = None,
    file: str | None = None,
    tensor: str | None = None,
    bits: str | None = None,
    line: str | None = None,
    beside: tuple[str, ...] = (),
    dtype: Annotated[str | None, Word(known_dtype)] = None,
    names: OptionalNames,
    shrink: bool = True,
    name: str | None = None,
    tag: tuple[str, ...] = (),
    provenance: str | None = None,
    to: Path = _DEFAULT_FILE,
    device: DeviceChoice = "auto",
) -> None:
    """Save a failing input as a regression, shrunk first.

    The variant is what fails on it, and needed to shrink; a finding says it. An exact duplicate is refused. An input that shrinks to a saved one is covered by it, and nothing is saved.
    """
    if sum(source is not None for source in (finding, file, bits, line)) != 1:
        raise UsageError("say what to add by exactly one of --finding (with --report), --file, --bits and --line")
    if beside and not (bits or file):
        raise UsageError("--beside goes with --bits or --file; a line and a finding say themselves what they name")
    if name is not None:
        check_name(name)
    kind: FindingKind | None = None
    if len(names) > 1:
        raise UsageError(f"{len(names)} variants are named; expected the one that fails on the input")
    spec = names[0] if names else None
    if finding is not None:
        case, found, found_in = _from_report(report, finding)
        spec, kind = spec or found_in, found.kind
    elif line is not None:
        case = decode_case(line.encode())
    else:
        case = case_from_hex(bits, dtype, family=FAMILY) if bits is not None else _from_file(str(file), dtype, tensor)
        case = _with_beside(case, beside)
    origin = "added by hand"
    shrunk: Shrunk | None = None
    if spec is not None and shrink:
        with contextlib.closing(Session(device, jobs=1)) as session:
            shrunk = shrink_failure(session, spec, case, kind)
        case, origin = shrunk.case, f"{spec}: {shrunk.violation.kind}"
        before, after = (f"{rows}x{columns}" for rows, columns in (shrunk.was, case.shape))
        click.echo(
            f"{f'shrunk from {before} to {after}' if before != after else 'it fails'}: {shrunk.violation.message}"
        )
    saved = named(case, name, provenance or origin, tag)
    siblings = [path for known in default_corpora() for path in corpus_files(known)]
    try:
        path = add(saved, to, beside=siblings)
    except AlreadySavedError as error:
        if shrunk is None:
            raise
        click.echo(f"covered by {error.saved_as} at {error.place}: the input shrinks to the same bits")
        click.echo("nothing was saved; --no-shrink saves the input as it is")
        return
    click.echo(f"saved {saved.id} ({saved.shape[0]}x{saved.shape[1]}) in {path}")
    is_built_in = path in (sibling.resolve() for sibling in siblings)
    where = "" if is_built_in else f" --corpus {shlex.quote(str(to))}"
    whose = f" --variant {shlex.quote(spec)}" if spec is not None else ""
    click.echo(f"run it: softcheck report{whose} --case {saved.id} --dtype {saved.dtype}{where}")


@command("list", corpus)
def list_command(corpora: Corpora) -> None:
    """List cases: id, shape, tags. All corpora if none is named."""
    cases = load(corpora or default_corpora())
    for case in cases:
        click.echo(f"{case.id:<60}{case.shape[0]}x{case.shape[1]:<10}{' '.join(case.tags)}")
    click.echo(f"{len(cases)} cases", err=True)


@command("show", corpus)
def show_command(
    case_id: Annotated[str, Argument("CASE_ID")], corpus: tuple[str, ...] = (), rows: int = 4, columns: int = 8
) -> None:
    """Show one case: its line in the corpus, its first elements as bits and values, and what it names beside them."""
    for case in select(load(corpus or default_corpora()), globs=[case_id]):
        click.echo(encode_case(case).decode().rstrip()[:2000])
        bits = case.bits(rows)
        for row, values in zip(bits[:, :columns], decode(bits, case.format)[:, :columns], strict=True):
            pairs = (f"{bits_hex(b, case.format)}={v:g}" for b, v in zip(row, values, strict=True))
            click.echo("  " + "  ".join(pairs) + ("  …" if case.shape[1] > columns else ""))
        if case.shape[0] > rows:
            click.echo(f"  … {case.shape[0] - rows} more rows")
        for name, operand in case.named(rows).items():
            for values in np.atleast_2d(operand)[:, : columns if operand.ndim > 1 else rows]:
                click.echo(f"  {name}  " + "  ".join(f"{v:g}" for v in values))
        for name, number in ({} if case.operands is None else case.operands.parameters).items():
            click.echo(f"  {name}={number:g}")


@command("verify", corpus)
def verify_command(corpora: Corpora) -> None:
    """Check schema, ids, duplicates and that every recipe reproduces its recorded digest."""
    chosen = corpora or tuple(default_corpora())
    problems = verify(chosen)
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        raise UsageError(f"{len(problems)} problems in {', '.join(chosen)}; each line above says what was expected")
    click.echo(f"{len(load(chosen))} cases, no problems")


@corpus.command("run", context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run_command(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Run saved cases; takes the options of ``softcheck report``. The regressions if no --corpus is named."""
    from softcheck.cli.report import report_command as report

    chosen = list(arguments)
    if "--help" not in chosen and not any(word.split("=")[0] == "--corpus" for word in chosen):
        chosen += ["--family", FAMILY]
    with report.make_context("run", chosen, parent=context.parent) as running:
        report.invoke(running)


def _from_file(path: str, dtype: str | None, tensor: str | None) -> Case:
    bits, found = read_array(path, dtype=dtype, tensor=tensor)
    return case_from_bits(bits, found, family=FAMILY, provenance=Path(path).name)


def _with_beside(case: Case, words: tuple[str, ...]) -> Case:
    if not words:
        return case
    known = [item for computed in OPERATIONS for item in operation(computed).parameters.items()]
    numbers = {name for name, value in known if isinstance(value, float)}
    bits, operands = beside_matrix(case.bits(), case.format, words, sorted(numbers))
    return case.with_contents(bits, case.layout, operands)


def _from_report(report_file: str | None, finding_id: str) -> tuple[Case, Finding, str]:
    if report_file is None:
        raise UsageError("--finding needs --report RESULT.json, as softcheck report --format json writes it")
    report = load_report(report_file)
    matches = [(row.name, f) for row in report.variants for f in row.findings if f.id.startswith(finding_id)]
    if not matches:
        ids = [f.id for row in report.variants for f in row.findings]
        raise UsageError(f"{report_file} holds no finding {finding_id!r}; {near_matches(finding_id, ids)}")
    if len({f.id for _, f in matches}) > 1:
        raise UsageError(
            f"finding {finding_id!r} is the beginning of {len(matches)} ids in {report_file}; give more digits"
        )
    variant, found = matches[0]
    if found.from_probe:
        raise UsageError(
            f"finding {found.id} is a probe's and has no case to save; see it again with: {found.reproduce}"
        )
    held = next((case.definition for case in report.cases if case.id == found.case), None)
    return held or select(load(default_corpora()), globs=[found.case])[0], found, variant
