"""Speed of the judge on tensors: by torch's own operations, and compiled, for each row operation and dtype.

    python benchmarks/bench_judge.py [--elements 67108864] [--only softmax] [--columns 2,1024]

Prints 10^9 elements a second of whole judgements (``whole``), of a block's rows by torch (``eager``) and by the compiled
program (``compiled``), and the seconds that compiling takes; "-" where the compiled program is not used, since it can't be made or
contradicts torch. ``again`` are the rows left to the numpy judge. Rows are normal numbers, and outputs those of the yardstick.
Exits 1 where a few rows' verdict or largest error differs from the numpy judge's. Without a GPU, choose few elements.
"""
# ruff: noqa: INP001, T201 - a script, not a package; it prints

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import torch

from oracles.formats import FORMATS
from softcheck.calling.call import TORCH_DTYPES, to_bits
from softcheck.judge.compiled import compiled
from softcheck.judge.judge import STANDARD, judge
from softcheck.judge.tensor_rows import TensorJudge
from softcheck.judge.tensors import judge_tensors, rows_at_once
from softcheck.operations.operation import Operation
from softcheck.operations.registry import OPERATIONS, operation

ROUNDS = 5


def seconds(call: Callable[[], object], device: torch.device) -> float:
    """Median seconds of a call and of the work that it leaves to the device."""
    spans = []
    for _ in range(ROUNDS):
        begun = _now(device)
        call()
        spans.append(_now(device) - begun)
    return statistics.median(spans)


def line(of: Operation, dtype: str, columns: int, elements: int, device: torch.device) -> tuple[str, bool]:
    """One line of the table, and whether judges differ."""
    fmt, rows = FORMATS[dtype], max(1, elements // columns)
    generator = torch.Generator(device).manual_seed(0)
    x = (2 * torch.randn(rows, columns, device=device, generator=generator)).to(TORCH_DTYPES[dtype])
    y = of.yardstick(x)
    own, few = TensorJudge(of, fmt, fmt, "nan", STANDARD), slice(0, 2**16 // columns)
    by_torch = judge_tensors(x[few], y[few], fmt, operation=of)
    by_numpy = judge(to_bits(x[few], fmt), to_bits(y[few], fmt), fmt, operation=of)
    verdicts = [(found.violations, found.max_ulp, found.elements) for found in (by_torch, by_numpy)]
    block = slice(0, rows_at_once(x, y))
    begun = _now(device)
    program = compiled(own, x[block], y[block])
    compiling = _now(device) - begun
    again = judge_tensors(x, y, fmt, operation=of).rejudged_rows
    speeds = [x.numel() / seconds(partial(judge_tensors, x, y, fmt, operation=of), device) / 1e9]
    programs = [function for function in (own.judged, program) if function is not None]
    speeds += [x[block].numel() / seconds(partial(function, x[block], y[block]), device) / 1e9 for function in programs]
    told = "".join(f"{speed:10.3f}" for speed in speeds) + ("" if program else f"{'-':>10}")
    return f"{f'{of.name} {dtype} {columns}':40}{told}{compiling:10.1f}{again:10}", verdicts[0] != verdicts[1]


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def main(arguments: Sequence[str]) -> int:
    """Prints the table; returns 1 where judges differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--elements", type=int, default=1 << 26)
    parser.add_argument("--only", default="", help="operations whose name holds this")
    parser.add_argument("--columns", default="2,1024", help="widths of rows")
    options = parser.parse_args(arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}, {options.elements} elements; 10^9 elements/s")
    print(f"{'operation':40}" + "".join(f"{head:>10}" for head in ("whole", "eager", "compiled", "compile s", "again")))
    judged = [of for of in map(operation, OPERATIONS) if of.on_device is not None and of.parts is None]
    wrong = False
    chosen = [of for of in judged if options.only in of.name]
    for of, dtype, columns in product(chosen, ("float16", "bfloat16", "float32"), map(int, options.columns.split(","))):
        said, differs = line(of, dtype, columns, options.elements, device)
        wrong |= differs
        print(said + ("  differs from the numpy judge" if differs else ""), flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
