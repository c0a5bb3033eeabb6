"""The sources' own measurements made again, with what each claimed beside what was measured.

    python benchmarks/source_tables.py FOLDER [--table NAME] [--seconds 0.4] [--no-run]

Writes FOLDER/NAME.json (as ``softcheck bench --format json``; draw it with ``softcheck render``) and FOLDER/sources.md. The
sources' GPUs differ from each other and from this one, so ratios are compared, not seconds. Exits 3 without a GPU.
"""
# ruff: noqa: INP001 - a script, not a package

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from softcheck.cli.bench import speed_report
from softcheck.errors import NothingRunError
from softcheck.report.json_format import load_any, render
from softcheck.report.model import ShapeSpeed, SpeedFigures, SpeedReport
from softcheck.run.check import check
from softcheck.run.model import RunOptions
from softcheck.speed.samples import SWEEPS, Shape


@dataclass(frozen=True)
class Claim:
    """A ratio that a source states or implies: how many times faster ``variant`` is than ``than``, on one shape."""

    variant: str
    than: str
    ratio: float
    words: str
    shape: Shape


@dataclass(frozen=True)
class Table:
    """One measurement of a source."""

    title: str
    dtype: str
    shapes: tuple[Shape, ...]
    variants: tuple[str, ...]
    claims: tuple[Claim, ...] = ()


_TRAFFIC = "tutorial: 8MN + 4M elements moved against 2MN, so ideally 4 times faster"
_BLOG = "blog post: torch 1.1638 ms, Triton 1.2150 ms"
_NOTEBOOK = "notebook: 0.0655 ms against torch's 0.400 ms, with a maximum difference of 5.01 printed beside it"

TABLES = {
    "columns": Table(
        "GB/s against columns, 4096 rows",
        "float32",
        SWEEPS["columns"],
        ("torch", "eager", "eager_compiled", "one_block", "persistent"),
        (
            Claim("one_block", "eager", 4.0, _TRAFFIC, (4096, 4096)),
            Claim("persistent", "eager", 4.0, _TRAFFIC, (4096, 12672)),
        ),
    ),
    "batch": Table(
        "batch scaling", "float16", SWEEPS["batch"], ("torch", "eager", "one_block", "persistent", "multi_row")
    ),
    "vocabulary": Table(
        "vocabulary scaling", "float16", SWEEPS["vocabulary"], ("torch", "eager", "one_block", "online")
    ),
    "blog": Table(
        "a language model's vocabulary",
        "float16",
        ((8192, 32000),),
        ("torch", "eager", "one_block", "persistent", "hybrid", "online"),
        (
            Claim("persistent", "torch", 1.1638 / 1.2150, _BLOG, (8192, 32000)),
            Claim("one_block", "torch", 1.1638 / 1.2150, _BLOG, (8192, 32000)),
        ),
    ),
    "odd": Table(
        "the tutorial's correctness shape", "float32", ((1823, 781),), ("torch", "one_block", "persistent", "eager")
    ),
    "notebook": Table(
        "the notebook's kernels",
        "float32",
        ((1024, 4096),),
        ("torch", "notebook_basic", "notebook_vectorized", "notebook_tiled", "one_block"),
        (Claim("notebook_vectorized", "torch", 0.400 / 0.0655, _NOTEBOOK, (1024, 4096)),),
    ),
}


def main() -> int:
    """Measures the tables; the exit code."""
    parser = argparse.ArgumentParser(description="Measure what the sources measured.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", action="append", choices=list(TABLES))
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--no-run", action="store_true", help="only write sources.md anew from the saved tables")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        for name in [] if options.no_run else options.table or TABLES:
            report = _measure(TABLES[name], options.seconds)
            (options.folder / f"{name}.json").write_text(render(report), encoding="utf-8")
            sys.stdout.write(f"{name}: {len(report.shapes)} shapes in {report.seconds:.0f} s\n")
    except NothingRunError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    (options.folder / "sources.md").write_text(_markdown(options.folder), encoding="utf-8")
    return 0


def _measure(table: Table, seconds: float) -> SpeedReport:
    options = RunOptions(
        variants=table.variants,
        dtypes=(table.dtype,),
        cases=(),
        whole_corpus=False,
        device="cuda",
        jobs=1,
        seconds_per_call=120.0,
        shapes=table.shapes,
        timing_seconds=seconds,
    )
    command = ["python", "benchmarks/source_tables.py", "FOLDER", "--seconds", f"{seconds:g}"]
    return speed_report(check(options), "torch", command)


def _markdown(folder: Path) -> str:
    lines = ["# What the sources measured, measured again", ""]
    for name, table in TABLES.items():
        path = folder / f"{name}.json"
        if not path.is_file():
            continue
        report = load_any(path)
        assert isinstance(report, SpeedReport)
        lines += [f"## {table.title} ({table.dtype}, `{name}.json`)", "", f"{report.environment.device}; GB/s (us)", ""]
        lines += ["| rows x columns | copy | " + " | ".join(table.variants) + " |"]
        lines += ["|---" * (len(table.variants) + 2) + "|"]
        shown = report.shapes if len(report.shapes) <= 13 else report.shapes[:: len(report.shapes) // 10]
        lines += [_row(shape) for shape in shown]
        lines += ["", *(_claim(claim, report) for claim in table.claims)]
        wrong = {f"- `{f.variant}`: {f.reason}" for shape in report.shapes for f in shape.variants if f.reason}
        lines += [*sorted(wrong), ""]
    return "\n".join(lines)


def _row(shape: ShapeSpeed) -> str:
    cells = [
        f"{f.gb_per_s:.0f} ({f.seconds.mid * 1e6:.1f})" if f.gb_per_s and f.seconds else "no figure"
        for f in shape.variants
    ]
    return f"| {shape.rows} x {shape.columns} | {shape.copy_gb_per_s:.0f} | {' | '.join(cells)} |"


def _claim(claim: Claim, report: SpeedReport) -> str:
    shape = next(s for s in report.shapes if (s.rows, s.columns) == claim.shape)
    by_name: dict[str, SpeedFigures] = {f.variant: f for f in shape.variants}
    ours, theirs = by_name[claim.variant], by_name[claim.than]
    if ours.seconds is None or theirs.seconds is None:
        measured = "no figure, since its output is wrong"
    else:
        measured = f"{theirs.seconds.mid / ours.seconds.mid:.2f} times"
    where = f"{claim.shape[0]} x {claim.shape[1]}"
    return f"- `{claim.variant}` against `{claim.than}`, {where}: claimed {claim.ratio:.2f} times ({claim.words}); measured {measured}."


if __name__ == "__main__":
    sys.exit(main())
