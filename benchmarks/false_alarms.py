"""Judges correct variants on fresh random rows of every family and format: every finding would be a false alarm.

    python benchmarks/false_alarms.py --output FILE [--jobs N] [--elements 1e12] [--seconds S] [--operation log_softmax]
                                      [--variants torch,multi_row]
    python benchmarks/false_alarms.py --resume FILE

Correct are the built-in variants of the operation that declare no defect for the dtype, but for those that only probes show.
Rows are drawn at widths from 1 to 2^17: those of the corpora's families (``softcheck.cases.random_rows``), and the adversarial rows and
rare values that every regime is tried with. Every variant that takes them is run on the same rows, and judged where they lie by
``judge_tensors``. With ``--device cpu`` launches are small. Families take turns by
the time that they have used, until every variant has ``--elements`` in the dtype or ``--seconds`` have gone by since the start.
With ``--jobs`` above 1, processes share the widths and dtypes, mostly so that they compile side by side; what each of them has is in
the folder FILE.shards. ``--gpus all`` spreads these processes over the GPUs of this machine. The file is written anew every few seconds, and a run that was ended goes on with ``--resume``, which takes
its settings from the file.

A finding is printed with what the numpy judge says of the same row and output, and its row is saved beside the file as a
corpus, FILE.inputs.jsonl. Exits 1 where there is a finding, 2 for wrong usage, 3 where nothing was run.
"""
# ruff: noqa: INP001 - a script, not a package

import argparse
import concurrent.futures
import json
import math
import multiprocessing
import os
import platform
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np
import torch

from oracles.formats import FORMATS, Format
from softcheck.calling.call import Placed, call_on_device, to_bits
from softcheck.cases.bit_rows import format_rows
from softcheck.cases.corpus import encode_case
from softcheck.cases.importing import case_from_bits
from softcheck.cases.random_rows import FILLERS, Draw, Filler, fill, torch_dtype
from softcheck.cases.rare_values import patterns, rows_with
from softcheck.cases.telling import telling_batch
from softcheck.cluster.local import on_gpus
from softcheck.contract import FindingKind, Violation
from softcheck.judge.contracts import contract_of
from softcheck.judge.judge import judge
from softcheck.judge.measurement import Measurement
from softcheck.judge.tensors import judge_tensors
from softcheck.probes.poison import nan_filled
from softcheck.report.build import environment
from softcheck.run.protocol import Ready
from softcheck.variants.declaration import Backend, Declaration
from softcheck.variants.registry import BUILTIN_OF, LoadedVariant, load

DTYPES = ("float16", "bfloat16", "float32")
TILES = (16, 64, 128, 256, 1024, 4096)
MOST_TELLING = 1 << 21
"""Elements of a batch of adversarial rows, which numpy makes."""


def _telling(draw: Draw) -> torch.Tensor:
    """Telling rows for a drawn tile, with numbers and places that are drawn; as many as there are, and no more than asked for."""
    seed = int(torch.randint(2**62, (1,), generator=draw.generator, device=draw.device))
    rng = np.random.default_rng(seed)
    most = max(1, min(draw.rows, MOST_TELLING // draw.columns))
    values, places = rng.normal(0.0, 100.0, 4).tolist(), rng.integers(0, draw.columns, 4).tolist()
    bits = telling_batch(draw.columns, int(rng.choice(TILES)), draw.fmt, rng, values=values, places=places, most=most)
    signed = torch.from_numpy(bits.view(f"i{bits.itemsize}")).to(draw.device)
    return signed.view(torch_dtype(draw.fmt))


def _rare(draw: Draw) -> torch.Tensor:
    """Rows with one pattern each: any of a 16-bit format, of a wider one those that the regimes are tried with."""
    seed = int(torch.randint(2**31, (1,), generator=draw.generator, device=draw.device))
    known = torch.from_numpy(patterns(draw.fmt, seed)).to(draw.device)
    chosen, places = known[draw.whole(0, len(known), 1)], draw.whole(0, draw.columns, 1)
    return rows_with(chosen, places, draw.columns, draw.fmt, draw.generator, near=bool(seed % 2))


ROWS: dict[str, Filler] = {**FILLERS, "telling": _telling, "rare-values": _rare}
"""The corpora's families, and the rows that every regime is tried with."""

WIDTHS = (
    *(1, 2, 3, 7, 16, 33, 64, 127, 128, 129, 255, 256, 257, 385, 512, 513, 781, 1000, 1023, 1024, 1025, 2047, 2048),
    *(2049, 4096, 4097, 8191, 8192, 16384, 16385, 32768, 65536, 65537, 102400, 131072),
)
WIDTHS_OF = {"one-column": (1,), "rows": (2, 3, 5, 8), "wide": tuple(w for w in WIDTHS if w > 8000)}
GROUPS = tuple(
    tuple(w for w in WIDTHS if low < w <= high)
    for low, high in ((0, 33), (33, 257), (257, 1024), (1024, 4096), (4096, 16384), (16384, 1 << 17))
)
"""Widths that share compiled kernels, as far as may be: what one process takes."""
LIMITS = {"cuda": (1 << 22, 1 << 28), "cpu": (1 << 11, 1 << 13)}
"""Elements of first launches, and of the largest: one that took long, or not, makes the next of its kind smaller or larger."""
MOST_OF_HEADS = 1 << 26
"""Elements of the largest launch of an attention, whose queries, keys and values are drawn in float64."""
MOST_HEADS = 65_535
"""Heads of a launch: torch's flash and efficient attention can't launch for more."""
QUICK, SLOW = 0.2, 1.0
MOST_FINDINGS = 20
_SAVE_EVERY = 10.0


class Tally(msgspec.Struct):
    """Counts of one family's judged rows."""

    launches: int = 0
    rows: int = 0
    elements: int = 0
    special_rows: int = 0
    rejudged_rows: int = 0
    """Rows left to the numpy judge and, where it is in doubt, to the Arb oracle."""
    max_share: float = 0.0
    seconds: float = 0.0

    def add(self, measurement: Measurement, elements: int, seconds: float) -> None:
        """Adds one launch, with the elements of its input or output, whichever are more."""
        m = measurement
        share = 0.0 if m.max_bound_share is None else m.max_bound_share.value
        self.take(Tally(1, m.rows, elements, m.special_rows, m.rejudged_rows, share, seconds))

    def take(self, other: "Tally") -> None:
        """Adds what another tally has."""
        for name in ("launches", "rows", "elements", "special_rows", "rejudged_rows", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.max_share = max(self.max_share, other.max_share)


class Progress(msgspec.Struct):
    """One variant in one dtype."""

    variant: str
    dtype: str
    families: dict[str, Tally] = {}
    widths: dict[str, int] = {}
    findings: list[dict[str, Any]] = []
    gave_nothing: bool = False

    def total(self, name: str) -> float:
        """A figure's sum over the families."""
        return sum(getattr(tally, name) for tally in self.families.values())


class State(msgspec.Struct):
    """Contents of the file."""

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
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
        temporary.replace(path)


def read(path: Path) -> State:
    """The state in a file; raises OSError and msgspec.DecodeError."""
    return msgspec.json.decode(path.read_bytes(), type=State)


def measured(x: torch.Tensor, y: torch.Tensor, fmt: Format, variant: LoadedVariant) -> Measurement:
    """The judge's word on an output where it lies, by the arithmetic that the variant declares."""
    arithmetic = contract_of(variant.declaration.arithmetic, of_cpu_library=x.device.type == "cpu")
    masked, operation = variant.declaration.fully_masked, variant.operation
    return judge_tensors(x, y, fmt, operation=operation, fully_masked=masked, arithmetic=arithmetic)


def laid_out(x: torch.Tensor, kind: int, fmt: Format) -> Placed:
    """The rows with gaps of NaN between them, between columns, or transposed."""
    rows, columns = x.shape
    strides, offset = (((columns + 3, 1), 5), ((2 * columns, 2), 1), ((1, rows + 1), 0))[kind % 3]
    size = offset + (rows - 1) * strides[0] + (columns - 1) * strides[1] + 1
    storage = torch.full((size,), float("nan"), dtype=x.dtype, device=x.device)
    view = storage.as_strided((rows, columns), strides, offset)
    view.copy_(x)
    return Placed(view, storage, fmt)


@dataclass(frozen=True)
class Shard:
    """The work of one process: some widths of one dtype."""

    dtype: str
    widths: tuple[int, ...]

    @property
    def name(self) -> str:
        """For its file."""
        return f"{self.dtype}-{self.widths[0]}-{self.widths[-1]}"


class Run:
    """One variant on the rows of a shard."""

    def __init__(self, variant: LoadedVariant, progress: Progress, shard: Shard, settings: dict[str, Any]) -> None:
        self.variant, self.progress = variant, progress
        limit = variant.declaration.column_limit(shard.dtype) or max(WIDTHS)
        self.limit = limit if settings["device"] == "cuda" else min(limit, LIMITS["cpu"][1])
        # Its part of the elements asked for, among the shards that it takes a part in.
        self.wanted = float(settings["elements"]) / sum(group[0] <= self.limit for group in groups(settings))
        self.compiled: set[int] = set()
        strided = "strided" in variant.declaration.layouts
        for family in settings["families"]:
            if (family != "layout" or strided) and self.widths(family, shard):
                progress.families.setdefault(family, Tally())

    def widths(self, family: str, shard: Shard) -> set[int]:
        """The widths at which it takes a family's rows."""
        return {width for width in WIDTHS_OF.get(family, WIDTHS) if width in shard.widths and width <= self.limit}

    def takes(self, family: str, columns: int) -> bool:
        """True if the variant runs on such rows."""
        return family in self.progress.families and columns <= self.limit


class Sweep:
    """Launches of the variants that are correct in one dtype, on the same rows."""

    def __init__(self, state: State, shard: Shard, inputs: Path) -> None:
        settings = state.settings
        self.shard, self.inputs = shard, inputs
        self.fmt = FORMATS[shard.dtype]
        self.device = torch.device(settings["device"])
        self.seed = int(settings["seed"])
        self.first, self.most = LIMITS[self.device.type]
        self.size: dict[tuple[str, int], int] = {}
        self.spent: dict[tuple[str, int], tuple[int, float]] = {}
        """Elements and seconds of the last launch of each kind."""
        backend: Backend = "cuda" if settings["device"] == "cuda" else "interpreter"
        variants = [load(name) for name in settings["variants"]]
        correct = [v for v in variants if _is_correct(v.declaration, shard.dtype, backend)]
        self.runs = [Run(v, state.run(v.name, shard.dtype), shard, settings) for v in correct]
        self.most_rows = self.most
        if any(not run.variant.operation.answers_logits and run.variant.operation.parts for run in self.runs):
            self.most, self.most_rows = min(self.most, MOST_OF_HEADS), MOST_HEADS

    def unfinished(self) -> list[Run]:
        """The variants that have not been judged enough."""
        return [run for run in self.runs if not _done(run.progress, run.wanted)]

    def launch(self, runs: list[Run]) -> None:
        """Draws rows of the family that has used the least time, and runs and judges these variants on them."""
        family = min(
            {name: None for run in runs for name in run.progress.families},
            key=lambda name: (self._used(name, "seconds"), self._used(name, "launches")),
        )
        launches = int(
            max(run.progress.families[family].launches for run in self.runs if family in run.progress.families)
        )
        random = np.random.default_rng(
            [self.seed, list(ROWS).index(family), DTYPES.index(self.shard.dtype), self.shard.widths[0], launches]
        )
        widths = sorted({w for run in runs if family in run.progress.families for w in run.widths(family, self.shard)})
        columns = int(random.choice(widths))
        # Narrow rows, those that the judge scans, and wider ones take different times.
        key = (family, (columns > 16) + (columns > 16384))
        elements = max(columns, *(math.prod(run.variant.operation.part_shape(columns)) for run in runs))
        rows = min(self.most_rows, max(1, self.size.setdefault(key, self.first) // elements))
        generator = torch.Generator(self.device).manual_seed(int(random.integers(2**62)))
        spent: list[float] = []
        try:
            x = fill(ROWS[family], rows, columns, self.fmt, generator)
            placed = laid_out(x, launches, self.fmt) if family == "layout" else Placed(x, x.view(-1), self.fmt)
            for run in runs:
                if run.takes(family, columns):
                    spent += self._judge(run, family, placed)
        except torch.OutOfMemoryError:
            if rows * elements <= self.first:
                raise
            # Other processes have some of the memory too.
            torch.cuda.empty_cache()
            self.size[key] = self.most = max(self.first, rows * elements // 2)
            return
        if spent:
            before = self.spent.get(key)
            self.spent[key] = self.size[key], max(spent)
            self.size[key] = _next_size(*self.spent[key], self.most, before)

    def _used(self, family: str, name: str) -> float:
        return sum(getattr(run.progress.families[family], name) for run in self.runs if family in run.progress.families)

    def _judge(self, run: Run, family: str, placed: Placed) -> list[float]:
        """Runs and judges one variant; the seconds that it took, but for the first time at a width, which compiles."""
        x, columns = placed.view, placed.view.shape[1]
        begun = time.perf_counter()
        with nan_filled():
            returned = call_on_device(run.variant.function, placed, run.variant.operation)
        if any(violation.kind is FindingKind.OUT_OF_MEMORY for violation in returned.violations):
            raise torch.OutOfMemoryError(f"{run.variant.name} had too little memory for {tuple(x.shape)}")
        self._report(run, family, returned.violations, x, returned.output)
        if returned.output is None:
            run.progress.gave_nothing = True
            return []
        measurement = measured(x, returned.output, self.fmt, run.variant)
        self._report(run, family, measurement.violations, x, returned.output)
        spent = [time.perf_counter() - begun] if columns in run.compiled else []
        run.compiled.add(columns)
        elements = max(x.numel(), returned.output.numel())
        run.progress.families[family].add(measurement, elements, sum(spent))
        run.progress.widths[str(columns)] = run.progress.widths.get(str(columns), 0) + elements
        return spent

    def _report(
        self,
        run: Run,
        family: str,
        violations: tuple[Violation, ...],
        x: torch.Tensor,
        output: torch.Tensor | None,
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
                found |= self._kept(run, violation, x[violation.row : violation.row + 1], output)
            run.progress.findings.append(found)
            click.echo(f"FINDING {run.variant.name} {self.fmt.name} {family}: {json.dumps(found)}")

    def _kept(self, run: Run, violation: Violation, x: torch.Tensor, output: torch.Tensor) -> dict[str, Any]:
        """Saves the row; what the numpy judge says of it and of the same output."""
        assert violation.row is not None
        bits, answer = to_bits(x, self.fmt), to_bits(output[violation.row : violation.row + 1], self.fmt)
        declared = run.variant.declaration
        again = judge(
            bits,
            answer,
            self.fmt,
            fully_masked=declared.fully_masked,
            arithmetic=contract_of(declared.arithmetic, of_cpu_library=self.device.type == "cpu"),
            operation=run.variant.operation,
        )
        confirmed = violation.kind in {other.kind for other in again.violations}
        case = case_from_bits(
            bits, self.fmt.name, family="false-alarm", provenance=f"{run.variant.name}: {violation.kind}"
        )
        self.inputs.parent.mkdir(parents=True, exist_ok=True)
        with self.inputs.open("ab") as file:
            file.write(encode_case(case))
        words = ["softcheck", "report", "--variant", run.variant.name, "--dtype", self.fmt.name]
        return {
            "numpy_judge": "finds it too: the variant is wrong" if confirmed else "passes this row: a FALSE ALARM",
            "case": case.id,
            "output": format_rows(answer[:, :64], self.fmt)[0],
            "reproduce": shlex.join([*words, "--corpus", str(self.inputs), "--case", case.id]),
        }


def _next_size(size: int, seconds: float, most: int, before: tuple[int, float] | None) -> int:
    """Returns the elements of the next launch of a kind: fewer after a slow launch, more after a quick one.

    Where other processes share the device, a launch waits for its turns however small it is. A launch that took hardly longer
    than one of half its size, or no less time than one of twice its size, is followed by a larger one.
    """
    waits = before is not None and (
        (before[0] < size and seconds < 2 * before[1]) or (before[0] > size and seconds > 0.75 * before[1])
    )
    if seconds < QUICK or waits:
        return min(most, 4 * size)
    return max(1 << 10, size // 2) if seconds > SLOW else size


def sweep(state: State, shard: Shard, path: Path, inputs: Path, until: float) -> None:
    """Runs one shard until ``until``, a ``time.time()``, saving ``state`` in the file at ``path`` every few seconds."""
    launches = Sweep(state, shard, inputs)
    saved = time.monotonic()
    while (runs := launches.unfinished()) and time.time() < until:
        launches.launch(runs)
        if time.monotonic() - saved > _SAVE_EVERY:
            state.write(path)
            saved = time.monotonic()


def groups(settings: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    """Widths by process: with one process, all in one."""
    return GROUPS if settings["jobs"] > 1 else (WIDTHS,)


def shards(settings: dict[str, Any]) -> list[Shard]:
    """Shards for the processes, in the order in which they begin: wide rows take longest."""
    return [Shard(dtype, group) for group in reversed(groups(settings)) for dtype in settings["dtypes"]]


def run_shard(settings: dict[str, Any], shard: Shard, path: Path, until: float) -> None:
    """Runs one shard, from what its file in the folder beside ``path`` has; in a process of its own where there are several."""
    # What ends a process early: it keeps what it has, and says nothing once it has ended.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    # The numpy judge looks at a few rows of each launch: more threads cost more than they save, most beside other processes.
    torch.set_num_threads(1)
    own = _folder(path) / f"{shard.name}.json"
    state = read(own) if own.exists() else State(settings, {}, [])
    state.settings = settings
    own.parent.mkdir(parents=True, exist_ok=True)
    try:
        sweep(state, shard, own, path.with_name(f"{path.name}.inputs.jsonl"), until)
    finally:
        state.write(own)
        signal.signal(signal.SIGTERM, before)


def _run_shard_apart(settings: dict[str, Any], shard: Shard, path: Path, until: float) -> None:
    """As ``run_shard``; an interruption ends this process, which else would take the next shard."""
    try:
        run_shard(settings, shard, path, until)
    except KeyboardInterrupt:
        os._exit(130)


def _run_shard_there(gpu: str, words: list[str]) -> None:
    # What ends this process ends the command with it.
    together = ["setpriv", "--pdeathsig", "TERM", *words]
    status = subprocess.call(together, env={**os.environ, "CUDA_VISIBLE_DEVICES": gpu})  # noqa: S603 - our own
    if status not in {0, 130}:
        raise RuntimeError(f"{' '.join(words)} ended with {status}")


def _folder(path: Path) -> Path:
    return path.with_name(f"{path.name}.shards")


def together(state: State, path: Path) -> None:
    """Adds up what all shards have, into the state and its file."""
    state.runs = []
    order = {name: place for place, name in enumerate(state.settings["variants"])}
    found = [run for own in sorted(_folder(path).glob("*.json")) for run in read(own).runs]
    for part in sorted(found, key=lambda run: (DTYPES.index(run.dtype), order[run.variant])):
        whole = state.run(part.variant, part.dtype)
        whole.findings += part.findings
        whole.gave_nothing |= part.gave_nothing
        for columns, elements in part.widths.items():
            whole.widths[columns] = whole.widths.get(columns, 0) + elements
        for family, tally in part.families.items():
            whole.families.setdefault(family, Tally()).take(tally)
    state.write(path)


def _so_far(state: State) -> str:
    elements, findings = sum(run.total("elements") for run in state.runs), sum(len(run.findings) for run in state.runs)
    return f"  {elements:.4g} elements, {findings} findings"


def run_all(state: State, path: Path, gpus: Sequence[str] = ()) -> None:
    """Runs every shard, several at a time with ``jobs`` above 1, and adds up what they have as they go on.

    On several GPUs each shard is a command of its own.
    """
    settings, todo = state.settings, shards(state.settings)
    until = time.time() + (settings["seconds"] or float("inf"))
    if settings["jobs"] == 1 and not gpus:
        for shard in todo:
            run_shard(settings, shard, path, until)
            together(state, path)
            click.echo(_so_far(state))
        return
    pool: concurrent.futures.Executor
    if gpus:
        state.write(path)
        pool = concurrent.futures.ThreadPoolExecutor(settings["jobs"])
        words = [sys.executable, str(Path(__file__).resolve()), "--resume", str(path.resolve()), "--until", str(until)]
        waiting = {
            pool.submit(_run_shard_there, gpus[at % len(gpus)], [*words, "--shard", shard.name])
            for at, shard in enumerate(todo)
        }
    else:
        context = multiprocessing.get_context("spawn")
        pool = concurrent.futures.ProcessPoolExecutor(settings["jobs"], mp_context=context)
        waiting = {pool.submit(_run_shard_apart, settings, shard, path, until) for shard in todo}
    try:
        while waiting:
            ended, waiting = concurrent.futures.wait(waiting, _SAVE_EVERY, concurrent.futures.FIRST_COMPLETED)
            for one in ended:
                one.result()
            together(state, path)
            click.echo(_so_far(state))
    except BaseException:
        for process in list(getattr(pool, "_processes", {}).values()):  # what ended this may not have reached them
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _is_correct(promise: Declaration, dtype: str, backend: Backend) -> bool:
    """True if a variant declares the dtype and no defect that cases may show.

    A defect that only a probe finds is no wrong value.
    """
    defects = [d for d in promise.known_defects if d.applies(dtype, backend)]
    return dtype in promise.dtypes and all(glob.startswith("probe/") for d in defects for glob in d.cases)


def _done(progress: Progress, wanted: float) -> bool:
    if progress.gave_nothing or len(progress.findings) >= MOST_FINDINGS or not progress.families:
        return True
    # Every family has its turn, however few elements are asked for.
    return all(tally.launches > 0 for tally in progress.families.values()) and progress.total("elements") >= wanted


def line(progress: Progress) -> str:
    """One variant and dtype in figures."""
    elements, seconds = progress.total("elements"), progress.total("seconds")
    share = max((tally.max_share for tally in progress.families.values()), default=0.0)
    return (
        f"{progress.variant:32}{progress.dtype:10}{elements:12.4g}{progress.total('rows'):12.4g}"
        f"{progress.total('special_rows'):12.4g}{progress.total('rejudged_rows'):10.4g}{share:10.4f}"
        f"{len(progress.findings):9}{seconds:9.1f}{elements / max(seconds, 1e-9) / 1e9:9.1f}"
    )


HEADING = (
    f"{'variant':32}{'dtype':10}{'elements':>12}{'rows':>12}{'special':>12}{'rejudged':>10}{'share':>10}{'findings':>9}"
    f"{'s':>9}{'Gel/s':>9}"
)


def family_table(runs: list[Progress]) -> str:
    """Elements and largest share by family and dtype."""
    dtypes = [dtype for dtype in DTYPES if any(run.dtype == dtype for run in runs)]
    lines = [f"{'elements, share':20}" + "".join(f"{dtype:>22}" for dtype in dtypes)]
    for family in ROWS:
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
    except (OSError, ValueError, msgspec.DecodeError) as error:
        sys.stderr.write(f"false_alarms.py: {error}\n")
        return 2
    if state.settings["device"] == "cuda" and not torch.cuda.is_available():
        sys.stderr.write("no CUDA device; nothing was run. --device cpu runs small launches with the numpy judge\n")
        return 3
    if state.settings["device"] == "cpu":
        # Before any variant is imported: Triton reads it when a kernel is decorated.
        os.environ["TRITON_INTERPRET"] = "1"
    if options.shard is not None:
        (shard,) = (one for one in shards(state.settings) if one.name == options.shard)
        try:
            run_shard(state.settings, shard, path, options.until)
        except KeyboardInterrupt:
            return 130
        return 0
    click.echo(f"{state.environment['device']}, torch {state.environment['torch']}")
    code = 0
    # What timeout sends ends the run as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run_all(state, path, () if options.gpus is None else on_gpus(options.gpus).visible)
    except KeyboardInterrupt:
        code = 130
        click.echo(f"interrupted; go on with --resume {path}")
    finally:
        together(state, path)
    judged = [run for run in state.runs if run.total("launches")]
    click.echo(HEADING)
    for run in judged:
        click.echo(line(run))
    click.echo(family_table(judged))
    findings = sum(len(run.findings) for run in state.runs)
    click.echo(f"{sum(run.total('elements') for run in judged):.4g} elements in all, {findings} findings")
    return code or (1 if findings else 0 if judged else 3)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, help="where figures and findings go, as JSON")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on with the run in this file")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument(
        "--operation", choices=list(BUILTIN_OF), default="softmax", help="whose built-in variants are run"
    )
    parser.add_argument("--variants", help="names, separated by commas, in place of all of the operation's")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--families", default=",".join(ROWS))
    parser.add_argument("--elements", type=float, default=1e12, help="for each variant and dtype")
    parser.add_argument("--seconds", type=float, help="seconds from the start after which no more rows are drawn")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share widths and dtypes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gpus", metavar="all|0,2", help="spread the shards over these GPUs")
    parser.add_argument("--shard", help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    return parser


def _begin(options: argparse.Namespace) -> tuple[Path, State]:
    """The file and what it holds; raises ValueError for wrong settings."""
    if (options.output is None) == (options.resume is None):
        raise ValueError("expected exactly one of --output FILE and --resume FILE")
    if options.resume is not None:
        return options.resume, read(options.resume)
    for old in (options.output, _folder(options.output)):
        if old.exists():
            raise ValueError(f"{old} exists; go on with --resume, or remove it to begin anew")
    options.variants = options.variants or ",".join(BUILTIN_OF[options.operation])
    names = {key: getattr(options, key).split(",") for key in ("variants", "dtypes", "families")}
    for key, known in (("dtypes", DTYPES), ("families", tuple(ROWS))):
        unknown = [name for name in names[key] if name not in known]
        if unknown:
            raise ValueError(f"unknown {key} {', '.join(unknown)}; expected some of {', '.join(known)}")
    settings = {name: getattr(options, name) for name in ("device", "elements", "seconds", "seed", "jobs")}
    return options.output, State({**names, **settings}, _environment(options.device), [])


def _environment(device: str) -> dict[str, Any]:
    name = torch.cuda.get_device_name() if device == "cuda" and torch.cuda.is_available() else "CPU"
    backend: Backend = "cuda" if device == "cuda" else "interpreter"
    ready = Ready(backend, name, str(torch.__version__), version("triton"), platform.python_version(), None)
    found: dict[str, Any] = msgspec.to_builtins(environment(ready, 0, [Path(sys.argv[0]).name, *sys.argv[1:]]))
    return found


if __name__ == "__main__":
    sys.exit(main())
