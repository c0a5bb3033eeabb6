"""Judges correct variants on fresh random rows of every family and format: every finding would be a false alarm.

    python benchmarks/false_alarms.py --output FILE [--elements 1e12] [--seconds S] [--variants torch,multi_row]
    python benchmarks/false_alarms.py --resume FILE

Correct are the built-in variants that declare no defect for the dtype, but for those that only probes show. Rows are drawn on the device
(``softcheck.search.random_rows``) at widths from 1 to 2^17, run, and judged where they lie with ``judge_trusted``; with
``--device cpu``, on small launches, with the numpy judge. Families take turns by the time that they have used, until a
variant has ``--elements`` in a dtype or has used ``--seconds``. The file is written anew every few seconds, and a run that
was ended goes on with ``--resume``, which takes its settings from the file.

A finding is printed with what the numpy judge says of the same row and output, and its row is saved beside the file as a
corpus, FILE.inputs.jsonl. Exits 1 where there is a finding, 2 for wrong usage, 3 where nothing was run.
"""
# ruff: noqa: INP001 - a script, not a package

import argparse
import json
import os
import platform
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np
import torch

from oracles.formats import FORMATS, Format
from softcheck.cases.case import format_rows
from softcheck.cases.corpus import encode_case
from softcheck.cases.importing import case_from_bits
from softcheck.contract import Violation
from softcheck.judge.judge import judge
from softcheck.judge.measurement import Measurement
from softcheck.probes.poison import nan_filled
from softcheck.report.build import environment
from softcheck.run.protocol import Ready
from softcheck.search.random_rows import FILLERS, fill
from softcheck.variants.call import Placed, call_on_device, to_bits
from softcheck.variants.declaration import Backend, Declaration
from softcheck.variants.registry import BUILTIN, LoadedVariant, load

DTYPES = ("float16", "bfloat16", "float32")
WIDTHS = (
    *(1, 2, 3, 7, 16, 33, 64, 127, 128, 129, 255, 256, 257, 385, 512, 513, 781, 1000, 1023, 1024, 1025, 2047, 2048),
    *(2049, 4096, 4097, 8191, 8192, 16384, 16385, 32768, 65536, 65537, 102400, 131072),
)
WIDTHS_OF = {"one-column": (1,), "rows": (2, 3, 5, 8), "wide": tuple(w for w in WIDTHS if w > 8000)}
LIMITS = {"cuda": (1 << 22, 1 << 26), "cpu": (1 << 11, 1 << 13)}
"""Elements of first launches, and of the largest: one that took long, or not, makes the next of its kind smaller or larger."""
QUICK, SLOW = 0.05, 0.5
MOST_FINDINGS = 20
_SAVE_EVERY = 10.0


@dataclass
class Tally:
    """What was judged of one family."""

    launches: int = 0
    rows: int = 0
    elements: int = 0
    special_rows: int = 0
    rejudged_rows: int = 0
    """Rows left to the numpy judge and, where it is in doubt, to the Arb oracle."""
    max_share: float = 0.0
    seconds: float = 0.0

    def add(self, measurement: Measurement, seconds: float) -> None:
        """Adds one launch."""
        self.launches += 1
        self.rows += measurement.rows
        self.elements += measurement.rows * measurement.columns
        self.special_rows += measurement.special_rows
        self.rejudged_rows += measurement.rejudged_rows
        if measurement.max_bound_share is not None:
            self.max_share = max(self.max_share, measurement.max_bound_share.value)
        self.seconds += seconds


@dataclass
class Progress:
    """One variant in one dtype."""

    variant: str
    dtype: str
    families: dict[str, Tally] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)

    gave_nothing: bool = False

    def total(self, name: str) -> float:
        """A figure's sum over the families."""
        return sum(getattr(tally, name) for tally in self.families.values())


@dataclass
class State:
    """What the file holds."""

    settings: dict[str, Any]
    environment: dict[str, Any]
    runs: list[Progress]

    def run(self, variant: str, dtype: str) -> Progress:
        """The progress of one variant and dtype, begun where there is none."""
        for run in self.runs:
            if (run.variant, run.dtype) == (variant, dtype):
                return run
        self.runs.append(Progress(variant, dtype))
        return self.runs[-1]

    def write(self, path: Path) -> None:
        """Replaces the file as a whole."""
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        temporary.replace(path)


def read(path: Path) -> State:
    """The state in a file; raises OSError and ValueError."""
    found = json.loads(path.read_text(encoding="utf-8"))
    runs = [
        Progress(**{**run, "families": {name: Tally(**tally) for name, tally in run["families"].items()}})
        for run in found["runs"]
    ]
    return State(found["settings"], found["environment"], runs)


def measured(x: torch.Tensor, y: torch.Tensor, fmt: Format, declaration: Declaration) -> Measurement:
    """The judge's word on an output where it lies."""
    masked = declaration.fully_masked
    if x.device.type == "cuda":
        from softcheck.judge.device.trust import judge_trusted

        return judge_trusted(x, y, fmt, fully_masked=masked)
    return judge(to_bits(x, fmt), to_bits(y, fmt), fmt, fully_masked=masked)


def laid_out(x: torch.Tensor, kind: int, fmt: Format) -> Placed:
    """The rows with gaps of NaN between them, between columns, or transposed."""
    rows, columns = x.shape
    strides, offset = (((columns + 3, 1), 5), ((2 * columns, 2), 1), ((1, rows + 1), 0))[kind % 3]
    size = offset + (rows - 1) * strides[0] + (columns - 1) * strides[1] + 1
    storage = torch.full((size,), float("nan"), dtype=x.dtype, device=x.device)
    view = storage.as_strided((rows, columns), strides, offset)
    view.copy_(x)
    return Placed(view, storage, fmt)


class Sweep:
    """Launches of one variant in one dtype."""

    def __init__(self, variant: LoadedVariant, progress: Progress, settings: dict[str, Any], inputs: Path) -> None:
        self.variant, self.progress, self.inputs = variant, progress, inputs
        self.fmt = FORMATS[progress.dtype]
        self.device = torch.device(settings["device"])
        self.seed = int(settings["seed"])
        self.first, self.most = LIMITS[self.device.type]
        self.limit = variant.declaration.column_limit(progress.dtype) or max(WIDTHS)
        self.size: dict[tuple[str, int], int] = {}
        self.compiled: set[int] = set()
        strided = "strided" in variant.declaration.layouts
        for family in settings["families"]:
            if (family != "layout" or strided) and self._widths(family):
                progress.families.setdefault(family, Tally())

    def _widths(self, family: str) -> tuple[int, ...]:
        most = self.limit if self.device.type == "cuda" else min(self.limit, self.most)
        return tuple(width for width in WIDTHS_OF.get(family, WIDTHS) if width <= most)

    def launch(self) -> None:
        """Draws, runs and judges rows of the family that has used the least time."""
        family, tally = min(self.progress.families.items(), key=lambda item: (item[1].seconds, item[1].launches))
        seed = [self.seed, list(FILLERS).index(family), DTYPES.index(self.progress.dtype), tally.launches]
        random = np.random.default_rng(seed)
        columns = int(random.choice(self._widths(family)))
        # Narrow rows, those that the judge scans, and wider ones take different times.
        key = (family, (columns > 16) + (columns > 16384))
        rows = max(1, self.size.setdefault(key, self.first) // columns)
        begun = time.perf_counter()
        generator = torch.Generator(self.device).manual_seed(int(random.integers(2**62)))
        x = fill(FILLERS[family], rows, columns, self.fmt, generator)
        placed = laid_out(x, tally.launches, self.fmt) if family == "layout" else Placed(x, x.view(-1), self.fmt)
        with nan_filled():
            returned = call_on_device(self.variant.function, placed)
        self._report(family, returned.violations, placed.view, returned.output)
        if returned.output is None:
            self.progress.gave_nothing = True
            return
        measurement = measured(placed.view, returned.output, self.fmt, self.variant.declaration)
        self._report(family, measurement.violations, placed.view, returned.output)
        seconds = time.perf_counter() - begun
        if columns not in self.compiled:
            # What compiling took is no family's time.
            self.compiled.add(columns)
            seconds = 0.0
        else:
            self.size[key] = _next_size(self.size[key], seconds, self.most)
        tally.add(measurement, seconds)
        self.progress.widths[str(columns)] = self.progress.widths.get(str(columns), 0) + rows * columns

    def _report(
        self, family: str, violations: tuple[Violation, ...], x: torch.Tensor, output: torch.Tensor | None
    ) -> None:
        for violation in violations:
            found: dict[str, Any] = {
                "family": family,
                "kind": str(violation.kind),
                "count": violation.count,
                "shape": list(x.shape),
                "message": violation.message,
            }
            if violation.row is not None and output is not None:
                found |= self._kept(violation, x[violation.row : violation.row + 1], output)
            self.progress.findings.append(found)
            click.echo(f"FINDING {self.variant.name} {self.fmt.name} {family}: {json.dumps(found)}")

    def _kept(self, violation: Violation, x: torch.Tensor, output: torch.Tensor) -> dict[str, Any]:
        """Saves the row; what the numpy judge says of it and of the same output."""
        assert violation.row is not None
        bits, answer = to_bits(x, self.fmt), to_bits(output[violation.row : violation.row + 1], self.fmt)
        again = judge(bits, answer, self.fmt, fully_masked=self.variant.declaration.fully_masked)
        confirmed = violation.kind in {other.kind for other in again.violations}
        case = case_from_bits(
            bits, self.fmt.name, family="false-alarm", provenance=f"{self.variant.name}: {violation.kind}"
        )
        self.inputs.parent.mkdir(parents=True, exist_ok=True)
        with self.inputs.open("ab") as file:
            file.write(encode_case(case))
        words = ["softcheck", "report", "--variant", self.variant.name, "--dtype", self.fmt.name]
        return {
            "numpy_judge": "finds it too: the variant is wrong" if confirmed else "passes this row: a FALSE ALARM",
            "case": case.id,
            "output": format_rows(answer[:, :64], self.fmt)[0],
            "reproduce": shlex.join([*words, "--corpus", str(self.inputs), "--case", case.id]),
        }


def _next_size(size: int, seconds: float, most: int) -> int:
    if seconds > SLOW:
        return max(1 << 10, size // 2)
    return min(most, 4 * size) if seconds < QUICK else size


def sweep(state: State, path: Path) -> Iterator[Progress]:
    """Runs what the settings ask for; yields each variant and dtype when it is done."""
    settings = state.settings
    backend: Backend = "cuda" if settings["device"] == "cuda" else "interpreter"
    for dtype in settings["dtypes"]:
        for name in settings["variants"]:
            variant = load(name)
            promise = variant.declaration
            if not _is_correct(promise, dtype, backend):
                continue
            progress = state.run(name, dtype)
            launches = Sweep(variant, progress, settings, path.with_name(f"{path.name}.inputs.jsonl"))
            saved = time.monotonic()
            while not _done(progress, settings):
                launches.launch()
                if time.monotonic() - saved > _SAVE_EVERY:
                    state.write(path)
                    saved = time.monotonic()
            state.write(path)
            yield progress


def _is_correct(promise: Declaration, dtype: str, backend: Backend) -> bool:
    """Whether a variant declares the dtype and no defect that cases may show; what only a probe finds is no wrong value."""
    defects = [d for d in promise.known_defects if d.applies(dtype, backend)]
    return dtype in promise.dtypes and all(glob.startswith("probe/") for d in defects for glob in d.cases)


def _done(progress: Progress, settings: dict[str, Any]) -> bool:
    if progress.gave_nothing or len(progress.findings) >= MOST_FINDINGS or not progress.families:
        return True
    # Every family has its turn, however few elements are asked for.
    if any(tally.launches == 0 for tally in progress.families.values()):
        return False
    limit = settings["seconds"]
    return progress.total("elements") >= settings["elements"] or (
        limit is not None and progress.total("seconds") >= limit
    )


def line(progress: Progress) -> str:
    """One variant and dtype in figures."""
    elements, seconds = progress.total("elements"), progress.total("seconds")
    share = max((tally.max_share for tally in progress.families.values()), default=0.0)
    return (
        f"{progress.variant:24}{progress.dtype:10}{elements:12.4g}{progress.total('rows'):12.4g}"
        f"{progress.total('special_rows'):12.4g}{progress.total('rejudged_rows'):10.4g}{share:10.4f}"
        f"{len(progress.findings):9}{seconds:9.1f}{elements / max(seconds, 1e-9) / 1e9:9.1f}"
    )


HEADING = (
    f"{'variant':24}{'dtype':10}{'elements':>12}{'rows':>12}{'special':>12}{'rejudged':>10}{'share':>10}{'findings':>9}"
    f"{'s':>9}{'Gel/s':>9}"
)


def family_table(runs: list[Progress]) -> str:
    """Elements and largest share by family and dtype."""
    dtypes = [dtype for dtype in DTYPES if any(run.dtype == dtype for run in runs)]
    lines = [f"{'elements, share':20}" + "".join(f"{dtype:>22}" for dtype in dtypes)]
    for family in FILLERS:
        cells = ""
        for dtype in dtypes:
            tallies = [run.families[family] for run in runs if run.dtype == dtype and family in run.families]
            share = max((tally.max_share for tally in tallies), default=0.0)
            cells += f"{sum(tally.elements for tally in tallies):14.4g}{share:8.4f}"
        lines.append(f"{family:20}{cells}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Runs the sweep; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        path, state = _begin(options)
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"false_alarms.py: {error}\n")
        return 2
    if state.settings["device"] == "cuda" and not torch.cuda.is_available():
        sys.stderr.write("no CUDA device; nothing was run. --device cpu runs small launches with the numpy judge\n")
        return 3
    if state.settings["device"] == "cpu":
        # Before any variant is imported: Triton reads it when a kernel is decorated.
        os.environ["TRITON_INTERPRET"] = "1"
        torch.set_num_threads(1)
    click.echo(f"{state.environment['device']}, torch {state.environment['torch']}\n{HEADING}")
    code = 0
    # What timeout sends ends the run as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for progress in sweep(state, path):
            click.echo(line(progress))
    except KeyboardInterrupt:
        code = 130
        click.echo(f"interrupted; go on with --resume {path}")
    finally:
        state.write(path)
    judged = [run for run in state.runs if run.total("launches")]
    click.echo(family_table(judged))
    findings = sum(len(run.findings) for run in state.runs)
    click.echo(f"{sum(run.total('elements') for run in judged):.4g} elements in all, {findings} findings")
    return code or (1 if findings else 0 if judged else 3)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, help="where figures and findings go, as JSON")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on with the run in this file")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--variants", default=",".join(BUILTIN), help="names, separated by commas")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--families", default=",".join(FILLERS))
    parser.add_argument("--elements", type=float, default=1e12, help="for each variant and dtype")
    parser.add_argument("--seconds", type=float, help="most seconds for each variant and dtype")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def _begin(options: argparse.Namespace) -> tuple[Path, State]:
    """The file and what it holds; raises ValueError for wrong settings."""
    if (options.output is None) == (options.resume is None):
        raise ValueError("expected exactly one of --output FILE and --resume FILE")
    if options.resume is not None:
        return options.resume, read(options.resume)
    if options.output.exists():
        raise ValueError(f"{options.output} exists; go on with --resume, or remove it to begin anew")
    names = {key: getattr(options, key).split(",") for key in ("variants", "dtypes", "families")}
    for key, known in (("dtypes", DTYPES), ("families", tuple(FILLERS))):
        unknown = [name for name in names[key] if name not in known]
        if unknown:
            raise ValueError(f"unknown {key} {', '.join(unknown)}; expected some of {', '.join(known)}")
    settings = {name: getattr(options, name) for name in ("device", "elements", "seconds", "seed")}
    return options.output, State({**names, **settings}, _environment(options.device), [])


def _environment(device: str) -> dict[str, Any]:
    name = torch.cuda.get_device_name() if device == "cuda" and torch.cuda.is_available() else "CPU"
    backend: Backend = "cuda" if device == "cuda" else "interpreter"
    ready = Ready(backend, name, str(torch.__version__), version("triton"), platform.python_version(), None)
    found: dict[str, Any] = msgspec.to_builtins(environment(ready, 0, [Path(sys.argv[0]).name, *sys.argv[1:]]))
    return found


if __name__ == "__main__":
    sys.exit(main())
