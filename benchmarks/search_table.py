"""Searches every built-in variant for its worst row, and prints its maximum beside that of as many random rows.

    python benchmarks/search_table.py --output FILE.json [--seconds 20] [--columns 1024] [--objectives bound,ulp]

Writes the report of all searches, as ``softcheck search --format json`` would (draw it with ``softcheck render``), and
prints a table. Exits 1 where a promise was broken, 3 where nothing was run. Needs a CUDA device unless ``--device
interpreter`` is given.
"""
# ruff: noqa: INP001 - a script, not a package

import argparse
import sys
from pathlib import Path

import click

from softcheck.errors import NothingRunError, SoftcheckError
from softcheck.report import figures, json_format
from softcheck.report.build import exit_code
from softcheck.report.model import Report
from softcheck.report.search import build
from softcheck.run.protocol import SearchOptions
from softcheck.run.search import SEARCHED, SearchOutcome, search
from softcheck.run.session import Session
from softcheck.variants.registry import BUILTIN


def table(report: Report) -> str:
    """Both maxima of every search."""
    heading = f"{'variant':24}{'dtype':10}{'columns':>8}  {'figure':12}{'search':>12}{'random':>12}{'ratio':>8}"
    lines = [f"{heading}{'elements':>11}{'rounds':>8}  verdict"]
    verdicts = {(row.name, row.dtype): row.verdict for row in report.variants}
    for found in report.searches:
        ratio = found.found / found.random if found.found and found.random else None
        lines.append(
            f"{found.name:24}{found.dtype:10}{found.columns:8}  {'error/bound' if found.objective == 'bound' else 'ULP':12}"
            f"{figures.at_least(found.found):>12}{figures.at_least(found.random):>12}{figures.figure(ratio):>8}"
            f"{found.elements:11.3g}{found.rounds:8}  {verdicts[found.name, found.dtype]}"
        )
    searched = [found for found in report.searches if found.found is not None and found.random is not None]
    ahead = sum((found.found or 0.0) > (found.random or 0.0) for found in searched)
    lines.append(f"{len(searched)} searches, {ahead} with a larger figure than random sampling of as many elements")
    return "\n".join(lines)


def main() -> int:
    """Runs the searches; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, required=True, help="the report, as JSON")
    parser.add_argument("--variants", default=",".join(BUILTIN), help="names, separated by commas")
    parser.add_argument("--dtypes", default=",".join(SEARCHED))
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--objectives", default="bound,ulp")
    parser.add_argument("--seconds", type=float, help="for each search; 20 if left out")
    parser.add_argument("--rounds", type=int, help="most rounds of each search")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=["cuda", "interpreter"], default="cuda")
    options = parser.parse_args()
    try:
        session = Session(options.device, jobs=1)
    except NothingRunError as error:
        sys.stderr.write(f"search_table.py: {error}\n")
        return error.exit_code
    outcomes: list[SearchOutcome] = []
    refused: dict[tuple[str, str], str] = {}
    command = ["search_table.py", *sys.argv[1:]]
    seconds = 20.0 if options.seconds is None and options.rounds is None else options.seconds
    interrupted = False
    report = build(outcomes, session.ready, command=command, refused=refused)
    try:
        for dtype in options.dtypes.split(","):
            for name in options.variants.split(","):
                for objective in options.objectives.split(","):
                    wanted = SearchOptions(
                        variant=name,
                        dtype=dtype,
                        columns=options.columns,
                        objective=objective,
                        seconds=seconds,
                        rounds=options.rounds,
                        seed=options.seed,
                    )
                    _one(session, wanted, outcomes, refused)
                    # After each, so that a run that is ended loses nothing.
                    report = build(outcomes, session.ready, command=command, refused=refused)
                    options.output.write_text(json_format.render(report), encoding="utf-8")
    except KeyboardInterrupt:
        interrupted = True
    finally:
        session.close()
    click.echo(f"{session.ready.device}, torch {session.ready.torch}\n{table(report)}")
    return 130 if interrupted else exit_code(report)


def _one(
    session: Session, wanted: SearchOptions, outcomes: list[SearchOutcome], refused: dict[tuple[str, str], str]
) -> None:
    declaration = session.load(wanted.variant, (wanted.dtype,))
    if isinstance(declaration, str):
        refused[wanted.variant, wanted.dtype] = declaration
        return
    try:
        outcomes.append(search(session, wanted, declaration, lambda _: None))
    except SoftcheckError as error:
        refused[wanted.variant, wanted.dtype] = str(error)
        click.echo(f"{wanted.variant} {wanted.dtype}: {error}")


if __name__ == "__main__":
    sys.exit(main())
