"""Speed of the device judge beside torch's float64 operations and the hardware's limits.

    python benchmarks/bench_judge.py [--seconds 55] [--only float16] [--arithmetic float64|double-float32]
                                     [--output FILE]
    python benchmarks/bench_judge.py --whole
    python benchmarks/bench_judge.py --operations

``--whole`` takes less than a minute: the whole judgement of wide and of narrow rows in wall time, its part that is not the
kernels' (the host's), and when the host has launched the scan, launched all, read the results, and is done.

``--operations`` times the judgement by torch of the other operations' outputs, at 1024 columns in wall time: of ordinary rows as a
whole, of a block's pass over usual rows, of its limits alone, and of rows of every family, with the rows left to the numpy judge.

After ``--seconds`` no other shape is begun. Shapes left out are named, and ``--only`` takes those whose name holds a text,
such as "16384 x 4096".

Needs a CUDA device. Input and output come from DRAM: twice the L2 is overwritten before every timed launch, and each
figure is the median of the times between two device events, with all launches in the device's queue before the first. The
limits are measured in the same run: how fast a kernel reads two tensors, or the device copies one, whichever is faster, and how
fast a kernel does float64 multiply-adds.
``scan`` is the judge's first look with what it launches, ``judge`` the whole function with its host part, in wall time;
``kernels`` is everything that it has to launch on such an input, up to the few numbers that the host reads.
``scan/limit`` and ``judge/limit`` are shares of the lower limit. Exits 1 where judges
disagree, 3 where there is no device, 4 where all was right but time was short.
"""
# ruff: noqa: INP001, N803 - a script, not a package; kernels name compile-time constants in capitals

import argparse
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, get_args

import torch
import triton
import triton.language as tl

from oracles.formats import FORMATS, Format
from softcheck.calling.call import TORCH_DTYPES, to_bits
from softcheck.cases.random_rows import mixed
from softcheck.judge.device import dispatch, rates, table
from softcheck.judge.device.agreement import disagreements
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.fields import FEW_ROWS, MORE
from softcheck.judge.device.judge import judge_on_device
from softcheck.judge.device.reduction import Numbers, Scan
from softcheck.judge.device.tiles import tile
from softcheck.judge.judge import STANDARD, judge
from softcheck.judge.tensor_rows import TensorJudge
from softcheck.judge.tensors import judge_tensors
from softcheck.operations import bounds
from softcheck.operations.registry import OPERATIONS, operation
from softcheck.toolchain.compile import compiling

SHAPES = [
    *((dtype, shape) for shape in ((65536, 1024), (16384, 4096)) for dtype in ("float16", "bfloat16", "float32")),
    ("float16", (2**24, 2)),
]
PAIR = 2
ROUNDS = 15
WHOLE_ROUNDS = 21
CHECKED_ROWS = 64
UNFINISHED = 4
_HEAD_START = 8_000_000
"""Clock cycles, some 4 ms."""

Launch = Callable[[], object]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@triton.jit
def _read_kernel(x: tl.tensor, y: tl.tensor, out: tl.tensor, elements: tl.tensor, BLOCK: tl.constexpr) -> None:
    total = tl.zeros([BLOCK], tl.int32)
    for start in range(tl.program_id(0) * BLOCK, elements, tl.num_programs(0) * BLOCK):
        place = start + tl.arange(0, BLOCK)
        total += tl.load(x + place, mask=place < elements, other=0) ^ tl.load(y + place, mask=place < elements, other=0)
    tl.store(out + tl.program_id(0), tl.sum(total, axis=0))


def written_with_torch(x: torch.Tensor, y: torch.Tensor, fmt: Format) -> tuple[torch.Tensor, torch.Tensor]:
    """Largest ULP error and output sum per row, as one writes them with torch."""
    exact = torch.softmax(x.to(torch.float64), dim=-1)
    exponent = ((exact.view(torch.int64) >> 52) - 1023).clamp(min=fmt.min_exponent)
    per_ulp = ((1023 + fmt.precision - 1 - exponent) << 52).view(torch.float64)
    output = y.to(torch.float64)
    return ((output - exact) * per_ulp).abs().amax(dim=1), output.sum(dim=1)


def scanned(x: torch.Tensor, y: torch.Tensor, constants: Constants) -> Scan:
    """The judge's first look."""
    return dispatch.scan_in(dispatch.arithmetic_of(constants, x.device), x, y, constants, masked_gives_zero=False)


def launched(x: torch.Tensor, y: torch.Tensor, constants: Constants) -> None:
    """All that the judge launches before it reads numbers, as ``judge_on_device`` does."""
    found = scanned(x, y, constants)
    few, space = found.listed[: FEW_ROWS + MORE], found.space
    table.tabulate(
        x,
        y,
        constants,
        few,
        space.table_histogram,
        masked_gives_zero=False,
        counted=found.left,
        figures=space.figures,
    )


def seconds(launches: dict[str, Launch]) -> dict[str, float]:
    """Median seconds of each, run in turn, with the L2 overwritten before each run."""
    device = torch.device("cuda")
    flush = torch.empty(2 * torch.cuda.get_device_properties(device).L2_cache_size, dtype=torch.uint8, device=device)
    spans: dict[str, list[float]] = {name: [] for name in launches}
    for launch in launches.values():
        for _ in range(3):
            launch()
    cuda: Any = torch.cuda
    for round_number in range(ROUNDS):
        for name, launch in launches.items():
            flush.fill_(round_number + 1)
            # Launching takes longer than some of these run: the device waits until everything is in its queue.
            cuda._sleep(_HEAD_START)  # noqa: SLF001 - what torch's own benchmarks use
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            launch()
            end.record()
            end.synchronize()
            spans[name].append(begin.elapsed_time(end) / 1e3)
    return {name: statistics.median(times) for name, times in spans.items()}


def float64_operations(dtype: str, columns: int) -> float:
    """float64 operations per element in the scan's PTX, divisions as one."""
    fmt = FORMATS[dtype]
    x = torch.zeros((1, columns), dtype=TORCH_DTYPES[dtype])
    major, minor = torch.cuda.get_device_capability()
    with compiling(f"cuda:{major}{minor}") as kernels:
        scanned(x, x, Constants(fmt, bounds.model(STANDARD, fmt), columns))
    block, rows, warps = tile(columns) if columns != PAIR else (PAIR, 512, 4)
    pattern = r"\b(?:add|sub|mul|fma|div|setp\.\w+|max|min)(?:\.rn)?\.f64"
    (ptx,) = [str(k.asm["ptx"]) for k in kernels if k.name in {"_scan_kernel", "_pairs_kernel"}]
    return len(re.findall(pattern, ptx)) / (block * rows / (32 * warps))


def timed(dtype: str, shape: tuple[int, int], fma_rate: float) -> dict[str, Any]:
    """Figures of one dtype and shape; Gelements/s where nothing else is said."""
    fmt = FORMATS[dtype]
    rows, columns = shape
    torch.manual_seed(0)
    x = (torch.randn(shape, device="cuda") * 2).to(TORCH_DTYPES[dtype])
    y = torch.softmax(x, dim=-1)
    constants = Constants(fmt, bounds.model(STANDARD, fmt), columns)
    words = [t.view(torch.int32).flatten() for t in (x, y)]
    programs = 16 * torch.cuda.get_device_properties("cuda").multi_processor_count
    sums = torch.empty(programs, dtype=torch.int32, device="cuda")
    compiled = torch.compile(written_with_torch, dynamic=False)
    taken = seconds(
        {
            "read": lambda: _read_kernel[(programs,)](*words, sums, words[0].numel(), 4096, num_warps=4),
            "copy": lambda: torch.empty_like(x).copy_(x),
            "torch": lambda: written_with_torch(x, y, fmt),
            "compiled": lambda: compiled(x, y, fmt),
            "scan": lambda: scanned(x, y, constants),
            "kernels": lambda: launched(x, y, constants),
        }
    )
    elements = rows * columns
    wall = []
    for _ in range(5):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        measured = judge_on_device(x, y, fmt)
        wall.append(time.perf_counter() - begun)
    per_element = float64_operations(dtype, columns)
    speed = {name: elements / t / 1e9 for name, t in taken.items()}
    judged = elements / statistics.median(wall) / 1e9
    float64_limit = fma_rate / per_element / 1e9
    limit = min(max(speed["read"], speed["copy"]), float64_limit)
    left = Numbers(scanned(x, y, constants).copied()).left
    return {
        "dtype": dtype,
        "shape": shape,
        **speed,
        "judge": judged,
        "float64_operations": per_element,
        "float64_limit": float64_limit,
        "scan_share_of_limit": speed["scan"] / limit,
        "judge_share_of_limit": judged / limit,
        "rows_left_by_scan": left,
        "rejudged_rows": measured.rejudged_rows,
        "judged_in": measured.judged_in,
        "disagreements": _compare(x[:CHECKED_ROWS], y[:CHECKED_ROWS], fmt),
    }


def _compare(x: torch.Tensor, y: torch.Tensor, fmt: Format) -> list[str]:
    return disagreements(judge_on_device(x, y, fmt), judge(to_bits(x, fmt), to_bits(y, fmt), fmt))


WHOLE = [
    *((dtype, 2**16, 2**10) for dtype in ("float16", "float32")),
    *(("float16", 2**28 // columns, columns) for columns in (3, 5, 8, 16)),
]


def _steps(x: torch.Tensor, y: torch.Tensor, fmt: Format) -> tuple[list[float], int]:
    """Median microseconds from the begin of a judgement to the end of each of its steps; and the rows judged again."""
    spans = []
    marks: list[float] = []

    def marked(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            found = function(*args, **options)
            marks.append(time.perf_counter())
            return found

        return call

    originals = dispatch.scan_in, table.tabulate, Scan.copied
    dispatch.scan_in, table.tabulate, Scan.copied = (marked(f) for f in originals)  # type: ignore[method-assign]
    try:
        for _ in range(WHOLE_ROUNDS):
            marks.clear()
            torch.cuda.synchronize()
            begun = time.perf_counter()
            measured = judge_on_device(x, y, fmt)
            # Of the first three steps: tables of rows left, beyond the few that are tabulated beforehand, come later.
            spans.append([1e6 * (mark - begun) for mark in (*marks[:3], time.perf_counter())])
    finally:
        dispatch.scan_in, table.tabulate, Scan.copied = originals  # type: ignore[method-assign]
    return [statistics.median(step) for step in zip(*spans, strict=True)], measured.rejudged_rows


def operations() -> int:
    """Prints the speed of whole judgements by torch of each operation; the exit code is 0, or 1 where judges disagree."""
    _say(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    heads = ("Gelements/s", "usual G/s", "limits G/s", "mixed G/s", "again", "differs")
    _say(f"{'operation, 2^26 elements':44}" + "".join(f"{head:>12}" for head in heads))
    wrong = 0
    judged = [of for of in map(operation, OPERATIONS) if of.on_device is not None and of.accelerator is None]
    for of, dtype in product(judged, ("float32", "bfloat16", "float16")):
        fmt = FORMATS[dtype]
        generator = torch.Generator("cuda").manual_seed(0)
        shape = 2**16, 2**10 if of.parts is None else 2**4
        x = (torch.randn(shape, device="cuda", generator=generator) * 2).to(TORCH_DTYPES[dtype])
        various = mixed(*shape, fmt, generator)
        y, of_various = of.yardstick(x), of.yardstick(various)
        rows = TensorJudge(of, fmt, fmt, "nan", STANDARD)
        block, elements = 2**14, max(x.numel(), y.numel())
        calls: dict[str, tuple[int, Launch]] = {
            "judge": (elements, partial(judge_tensors, x, y, fmt, operation=of)),
            "usual": (elements // 4, partial(rows.usual, x[:block], y[:block])),
            "limits": (elements // 4, partial(rows.limits, x[:block])),
            "mixed": (elements, partial(judge_tensors, various, of_various, fmt, operation=of)),
        }
        speeds = [count / _waited(call) / 1e9 for count, call in calls.values()]
        again = judge_tensors(various, of_various, fmt, operation=of).rejudged_rows
        few = slice(None, None, 2**10)
        by_torch = judge_tensors(various[few], of_various[few], fmt, operation=of)
        by_numpy = judge(to_bits(various[few], fmt), to_bits(of_various[few], fmt), fmt, operation=of)
        differs = [name for name in disagreements(by_torch, by_numpy) if name != "histogram"]
        wrong += len(differs)
        told = "".join(f"{speed:12.2f}" for speed in speeds)
        _say(f"{f'{of.name} {dtype}':44}{told}{again:12}{len(differs):12}  {' '.join(differs)}")
    return int(wrong > 0)


def _waited(call: Launch) -> float:
    """Median seconds of a call and of the work that it leaves to the device."""
    spans = []
    for _ in range(5):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        call()
        torch.cuda.synchronize()
        spans.append(time.perf_counter() - begun)
    return statistics.median(spans)


def whole() -> int:
    """Prints the speed of whole judgements; the exit code is 0, or 1 where judges disagree."""
    heads = ("Gelements/s", "kernels G/s", "whole ms", "host ms", "left", "again", "us: scan, launched, read, done")
    _say(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    _say(f"{'dtype, rows x columns':28}" + "".join(f"{head:>12}" for head in heads))
    wrong = 0
    for dtype, rows, columns in WHOLE:
        fmt, shape = FORMATS[dtype], (rows, columns)
        torch.manual_seed(0)
        x = (torch.randn(shape, device="cuda", dtype=torch.float32) * 2).to(TORCH_DTYPES[dtype])
        y = torch.softmax(x, dim=-1)
        constants = Constants(fmt, bounds.model(STANDARD, fmt), columns)
        wrong += len(_compare(x[:CHECKED_ROWS], y[:CHECKED_ROWS], fmt))
        steps, again = _steps(x, y, fmt)
        taken = seconds({"kernels": partial(launched, x, y, constants)})["kernels"]
        left = Numbers(scanned(x, y, constants).copied()).left
        total, elements = steps[-1] / 1e6, rows * columns
        figures = (elements / total / 1e9, elements / taken / 1e9, 1e3 * total, 1e3 * (total - taken))
        told = ", ".join(f"{step:.0f}" for step in steps)
        _say(f"{_name(dtype, shape):28}" + "".join(f"{f:12.3f}" for f in figures) + f"{left:12}{again:12}    {told}")
        del x, y
        torch.cuda.empty_cache()
    return int(wrong > 0)


def _name(dtype: str, shape: tuple[int, int]) -> str:
    return f"{dtype} {shape[0]} x {shape[1]}"


def _timed_within(only: str, limit: float, fma_rate: float) -> tuple[list[dict[str, Any]], list[str]]:
    """Figures of the shapes begun in time, and the names of the others."""
    begun = time.monotonic()
    results: list[dict[str, Any]] = []
    late = []
    for dtype, shape in SHAPES:
        name = _name(dtype, shape)
        if only not in name:
            continue
        # The next shape takes about as long as those before: what takes the time is compiling.
        taken = time.monotonic() - begun
        if results and taken * (1 + 1 / len(results)) > limit:
            late.append(name)
            continue
        results.append(timed(dtype, shape, fma_rate))
        _say(f"  {time.monotonic() - begun:.0f} s: {name}")
    return results, late


def _table(results: list[dict[str, Any]]) -> str:
    names = ("torch", "compiled", "scan", "kernels", "judge", "read", "float64_limit")
    heads = (*names[:-2], "memory limit", "float64 limit")
    shares = ("scan_share_of_limit", "judge_share_of_limit")
    lines = [f"{'Gelements/s':24}" + "".join(f"{n:>14}" for n in heads) + f"{'scan/limit':>12}{'judge/limit':>12}"]
    lines[0] += f"{'left':>10}{'differs':>9}"
    for r in results:
        figures = "".join(f"{r[n]:14.1f}" for n in names) + "".join(f"{r[n]:12.2f}" for n in shares)
        lines.append(
            f"{_name(r['dtype'], r['shape']):24}{figures}{r['rows_left_by_scan']:10}{len(r['disagreements']):9}"
        )
    return "\n".join(lines)


def main() -> int:
    """Runs the benchmark; the exit code is 0, 1, 3 or 4."""
    parser = argparse.ArgumentParser(description="Speed of the device judge.")
    parser.add_argument("--seconds", type=float, default=55.0, help="begin nothing after so many seconds")
    parser.add_argument(
        "--only", default="", help='time shapes whose name holds this text, such as "float16 65536 x 1024"'
    )
    parser.add_argument("--whole", action="store_true", help="time whole judgements alone, in less than a minute")
    parser.add_argument(
        "--operations", action="store_true", help="time the judgement by torch of each operation, in less than a minute"
    )
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    parser.add_argument(
        "--arithmetic", choices=get_args(dispatch.JudgedIn), help="of the scan; default the faster by measured rates"
    )
    options = parser.parse_args()
    if options.arithmetic:
        os.environ[dispatch.VARIABLE] = options.arithmetic
    if not torch.cuda.is_available():
        sys.stderr.write("no CUDA device; nothing was run\n")
        return 3
    if options.whole or options.operations:
        return whole() if options.whole else operations()
    if not any(options.only in _name(*shape) for shape in SHAPES):
        parser.error(
            f"no shape's name holds {options.only!r}; expected a part of: {', '.join(_name(*s) for s in SHAPES)}"
        )
    rate = rates.rate(torch.float64, torch.device("cuda", torch.cuda.current_device()), times=2000)
    results, late = _timed_within(options.only, options.seconds, rate)
    _say(f"{torch.cuda.get_device_name()}, {2 * rate / 1e12:.1f} Tflop/s float64 measured, torch {torch.__version__}")
    _say(_table(results))
    if late:
        _say(f"not timed within {options.seconds:.0f} s: {', '.join(late)}")
    if options.output:
        document = {"device": torch.cuda.get_device_name(), "float64_fma_per_second": rate, "results": results}
        options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if any(r["disagreements"] for r in results):
        return 1
    return UNFINISHED if late else 0


if __name__ == "__main__":
    sys.exit(main())
