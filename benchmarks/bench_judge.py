"""Speed of the device judge beside torch's float64 operations and the hardware's limits, and its agreement with numpy's.

    python benchmarks/bench_judge.py [--arithmetic float64|double-float32] [--output FILE]
    python benchmarks/bench_judge.py --check [--variants torch,multi_row] [--families normal,special]

Needs a CUDA device. Input and output come from DRAM: twice the L2 is overwritten before every timed launch, and each
figure is the median of the times between two device events. The limits are measured in the same run: how fast a kernel
reads two tensors, and how fast it does float64 multiply-adds. ``scan`` is the judge's kernel alone, ``judge`` the whole
function with its host part, in wall time; ``kernels`` is everything that it has to launch on such an input, up to the
few numbers that the host reads. Exits 1 where judges disagree, 3 where there is no device.
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
from pathlib import Path
from typing import Any, get_args

import torch
import triton
import triton.language as tl

from oracles.formats import FORMATS, Format
from softcheck.cases.corpus import default_corpora, load
from softcheck.judge import bounds
from softcheck.judge.device import bins, choice, table
from softcheck.judge.device.agreement import disagreements
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.finish import Numbers, Scan
from softcheck.judge.device.judge import judge_on_device
from softcheck.judge.device.scan import tile
from softcheck.judge.judge import STANDARD, judge
from softcheck.variants.call import TORCH_DTYPES, place, to_bits
from softcheck.variants.compile import compiling
from softcheck.variants.registry import BUILTIN
from softcheck.variants.registry import load as load_variant

SHAPES = [
    *((dtype, shape) for shape in ((65536, 1024), (16384, 4096)) for dtype in ("float16", "bfloat16", "float32")),
    ("float16", (2**24, 2)),
]
PAIR = 2
ROUNDS = 15
CHECKED_ROWS = 256

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


@triton.jit
def _multiply_add_kernel(out: tl.tensor, times: tl.tensor, BLOCK: tl.constexpr) -> None:
    a = tl.arange(0, BLOCK).to(tl.float64)
    b, c, d = a + 1, a + 2, a + 3
    factor = a * 1e-9
    for _ in range(times):
        a = tl.fma(a, factor, b)
        b = tl.fma(b, factor, c)
        c = tl.fma(c, factor, d)
        d = tl.fma(d, factor, a)
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), a + b + c + d)


def operations(x: torch.Tensor, y: torch.Tensor, fmt: Format) -> tuple[torch.Tensor, torch.Tensor]:
    """Largest ULP error and output sum per row, as one writes them with torch."""
    exact = torch.softmax(x.to(torch.float64), dim=-1)
    exponent = ((exact.view(torch.int64) >> 52) - 1023).clamp(min=fmt.min_exponent)
    per_ulp = ((1023 + fmt.precision - 1 - exponent) << 52).view(torch.float64)
    output = y.to(torch.float64)
    return ((output - exact) * per_ulp).abs().amax(dim=1), output.sum(dim=1)


def scanned(x: torch.Tensor, y: torch.Tensor, constants: Constants) -> Scan:
    """The judge's first look."""
    return choice.scan_in(choice.arithmetic_of(constants, x.device), x, y, constants, masked_gives_zero=False)


def launched(x: torch.Tensor, y: torch.Tensor, constants: Constants) -> None:
    """All that the judge launches before it reads numbers, as ``judge_on_device`` does."""
    histogram = torch.zeros(bins.ALL, dtype=torch.int64, device=x.device)
    found = scanned(x, y, constants)
    table.tabulate(x, y, constants, found.listed[:1024], histogram, masked_gives_zero=False, counted=found.left)


def seconds(launches: dict[str, Launch]) -> dict[str, float]:
    """Median seconds of each, run in turn, with the L2 overwritten before each run."""
    device = torch.device("cuda")
    flush = torch.empty(2 * torch.cuda.get_device_properties(device).L2_cache_size, dtype=torch.uint8, device=device)
    spans: dict[str, list[float]] = {name: [] for name in launches}
    for launch in launches.values():
        for _ in range(3):
            launch()
    for round_number in range(ROUNDS):
        for name, launch in launches.items():
            flush.fill_(round_number + 1)
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
    return len(re.findall(pattern, str(kernels[0].asm["ptx"]))) / (block * rows / (32 * warps))


def multiply_add_rate() -> float:
    """float64 multiply-adds per second."""
    programs, block, times = 132 * 16, 512, 2000
    out = torch.empty(programs * block, dtype=torch.float64, device="cuda")
    taken = seconds({"fma": lambda: _multiply_add_kernel[(programs,)](out, times, block, num_warps=4)})["fma"]
    return programs * block * 4 * times / taken


def timed(dtype: str, shape: tuple[int, int], fma_rate: float) -> dict[str, Any]:
    """Figures of one dtype and shape; Gelements/s where nothing else is said."""
    fmt = FORMATS[dtype]
    rows, columns = shape
    torch.manual_seed(0)
    x = (torch.randn(shape, device="cuda") * 2).to(TORCH_DTYPES[dtype])
    y = torch.softmax(x, dim=-1)
    constants = Constants(fmt, bounds.model(STANDARD, fmt), columns)
    words = [t.view(torch.int32).flatten() for t in (x, y)]
    sums = torch.empty(132 * 16, dtype=torch.int32, device="cuda")
    compiled = torch.compile(operations, dynamic=False)
    taken = seconds(
        {
            "read": lambda: _read_kernel[(132 * 16,)](*words, sums, words[0].numel(), 4096, num_warps=4),
            "copy": lambda: torch.empty_like(x).copy_(x),
            "torch": lambda: operations(x, y, fmt),
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
    limits = {"memory": speed["read"], "float64": fma_rate / per_element / 1e9}
    left = Numbers(scanned(x, y, constants).found).left
    return {
        "dtype": dtype,
        "shape": shape,
        **speed,
        "judge": elements / statistics.median(wall) / 1e9,
        "float64_operations": per_element,
        "float64_limit": limits["float64"],
        "share_of_limit": speed["kernels"] / min(limits.values()),
        "rows_left_by_scan": left,
        "rejudged_rows": measured.rejudged_rows,
        "judged_in": measured.judged_in,
        "disagreements": _compare(x[:CHECKED_ROWS], y[:CHECKED_ROWS], fmt),
    }


def _compare(x: torch.Tensor, y: torch.Tensor, fmt: Format, masked: Any = "nan") -> list[str]:
    host = judge(to_bits(x, fmt), to_bits(y, fmt), fmt, fully_masked=masked)
    return disagreements(judge_on_device(x, y, fmt, fully_masked=masked), host)


def check(variants: list[str], families: set[str] | None, most_elements: int) -> int:
    """Compares both judges on every case and variant; returns how many outputs they disagree on."""
    loaded = [load_variant(name) for name in variants]
    compared = disagreeing = 0
    for case in load(default_corpora()):
        if case.dtype == "float64" or (families and case.family not in families):
            continue
        rows = max(1, most_elements // max(1, case.shape[1]))
        placed = place(case.bits(rows), case.format, case.layout, torch.device("cuda"))
        for variant in loaded:
            promise = variant.declaration
            limit = promise.column_limit(case.dtype)
            if case.dtype not in promise.dtypes or (limit is not None and case.shape[1] > limit):
                continue
            try:
                output = variant.function(placed.view)
                torch.cuda.synchronize()
            except Exception as error:  # noqa: BLE001 - a variant's failure is no matter of the judges
                _say(f"{case.id} {variant.name}: no output ({type(error).__name__})")
                continue
            compared += 1
            found = _compare(placed.view, output, case.format, promise.fully_masked)
            if found:
                disagreeing += 1
                _say(f"{case.id} {variant.name}: the judges disagree on {', '.join(found)}")
    _say(f"{compared} outputs judged twice, {disagreeing} disagreements")
    return disagreeing if compared else 1


def _table(results: list[dict[str, Any]]) -> str:
    names = ("torch", "compiled", "scan", "kernels", "judge", "read", "float64_limit")
    lines = [f"{'Gelements/s':24}" + "".join(f"{n:>14}" for n in names) + f"{'of limit':>10}{'left':>10}{'differs':>9}"]
    for r in results:
        head = f"{r['dtype']:9} {r['shape'][0]} x {r['shape'][1]}"
        figures = "".join(f"{r[n]:14.1f}" for n in names)
        lines.append(
            f"{head:24}{figures}{r['share_of_limit']:10.2f}{r['rows_left_by_scan']:10}{len(r['disagreements']):9}"
        )
    return "\n".join(lines)


def main() -> int:
    """Runs the benchmark or the check; the exit code is 0, 1 or 3."""
    parser = argparse.ArgumentParser(description="Speed of the device judge, and its agreement with the numpy judge.")
    parser.add_argument(
        "--check", action="store_true", help="compare both judges on corpora and variants, time nothing"
    )
    parser.add_argument("--variants", default=",".join(BUILTIN), help="for --check: names, separated by commas")
    parser.add_argument("--families", help="for --check: families of cases, separated by commas; default all")
    parser.add_argument("--elements", type=int, default=1 << 20, help="for --check: cases are cut to so many elements")
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    parser.add_argument(
        "--arithmetic", choices=get_args(choice.JudgedIn), help="of the scan; default the faster by measured rates"
    )
    options = parser.parse_args()
    if options.arithmetic:
        os.environ[choice.VARIABLE] = options.arithmetic
    if not torch.cuda.is_available():
        sys.stderr.write("no CUDA device; nothing was run\n")
        return 3
    if options.check:
        families = set(options.families.split(",")) if options.families else None
        return 1 if check(options.variants.split(","), families, options.elements) else 0
    rate = multiply_add_rate()
    results = [timed(dtype, shape, rate) for dtype, shape in SHAPES]
    _say(f"{torch.cuda.get_device_name()}, {2 * rate / 1e12:.1f} Tflop/s float64 measured, torch {torch.__version__}")
    _say(_table(results))
    if options.output:
        document = {"device": torch.cuda.get_device_name(), "float64_fma_per_second": rate, "results": results}
        options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 1 if any(r["disagreements"] for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
