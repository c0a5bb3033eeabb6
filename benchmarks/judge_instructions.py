"""Instructions per element of the device judge's scan, read from its machine code, and the rates that they would allow.

    python benchmarks/judge_instructions.py [--columns 1024,4096]

Needs no GPU: the kernels are compiled for sm_90 with the ptxas of the installed Triton, and its nvdisasm reads them. Counted
is the loop over rows, divided by the elements that a thread holds. The rates are those of an H200 (132 multiprocessors
at 1.755 GHz) whose one unit is always busy: predictions of what bounds the kernel, not measurements. Lanes per clock and
multiprocessor are from the CUDA C++ programming guide, table of arithmetic throughput, compute capability 9.0: 128 issued
instructions, 64 float64, 64 integer and comparison, and 16 for what the special function unit does, conversions from and
to 64-bit types included.
"""
# ruff: noqa: INP001 - a script, not a package

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch
import triton

from oracles.formats import FORMATS
from softcheck.judge import bounds
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.scan import scan
from softcheck.judge.device.tiles import tile
from softcheck.judge.judge import STANDARD
from softcheck.variants.call import TORCH_DTYPES
from softcheck.variants.compile import compiling

CLOCKS = 132 * 1.755e9
UNITS = {
    "issue": (128, r"."),
    "float64": (64, r"D(FMA|ADD|MUL|SETP|MNMX)"),
    "special": (16, r"MUFU|F2F|I2F|F2I"),
    "integer": (64, r"LOP3|SEL|VIMNMX|VIADDMNMX|ISETP|LEA|SHF|PRMT|PLOP3|IADD3|FMNMX|FSETP|FSEL|P2R"),
}
"""Lanes per clock of each unit, and the instructions that go there."""

_TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"


def loop_of(code: str) -> list[str]:
    """The instructions of the loop with the most float64 multiply-adds, on its shortest way round, from nvdisasm's text.

    That is the way of a row in no doubt: what other rows take besides lies behind a branch. For widths above 128: where a
    program has several rows, the shortest way may skip what every row takes.
    """
    instructions: list[str] = []
    labels: dict[str, int] = {}
    conditional: list[bool] = []
    for line in code.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line.strip()):
            labels[label[1]] = len(instructions)
        elif one := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+ )?(.*?);", line):
            conditional.append(bool(one[1]))
            instructions.append(one[2])
    targets = [_target(i, labels) for i in instructions]
    loops = [(t, i) for i, t in enumerate(targets) if t is not None and t <= i]
    first, last = max(loops, key=lambda loop: sum("DFMA" in i for i in instructions[loop[0] : loop[1]]))
    # Breadth first, since some of the way may lie outside of the loop's own stretch of code.
    before = {first: first}
    reached = [first]
    for place in reached:
        ends = re.match(r"(BRA|EXIT)\b(?!\.)", instructions[place]) and not conditional[place]
        for way in (None if ends else place + 1, targets[place]):
            if way is not None and way < len(instructions) and way not in before:
                before[way] = place
                reached.append(way)
    path = [last]
    while path[-1] != first:
        path.append(before[path[-1]])
    return [instructions[place] for place in reversed(path)]


def _target(instruction: str, labels: dict[str, int]) -> int | None:
    """Where an instruction may jump to."""
    jump = re.match(r"BRA.*`\((\.L_x_\d+)\)", instruction)
    return labels.get(jump[1]) if jump else None


def counted(dtype: str, columns: int) -> str:
    """One line: instructions per element, in all and by unit, and the rate that each would allow."""
    fmt = FORMATS[dtype]
    x = torch.zeros((4, columns), dtype=TORCH_DTYPES[dtype])
    with compiling("cuda:90") as kernels:
        scan(x, x, Constants(fmt, bounds.model(STANDARD, fmt), columns))
    (kernel,) = [k for k in kernels if k.name == "_scan_kernel"]
    block, rows, warps = tile(columns)
    per_thread = block * rows / (32 * warps)
    cubin = kernel.asm["cubin"]
    assert isinstance(cubin, bytes)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(cubin)
        command = [str(_TOOLS / "nvdisasm"), "-c", file.name]
        code = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - Triton's own tool
    loop = loop_of(code)
    spills = sum(bool(re.search(r"\b(LDL|STL)\b", line)) for line in code.splitlines())
    counts = Counter({unit: sum(bool(re.match(p, i)) for i in loop) for unit, (_, p) in UNITS.items()})
    told = [
        f"{unit} {count / per_thread:.1f} ({CLOCKS * UNITS[unit][0] * per_thread / count / 1e9:.0f} G/s)"
        for unit, count in counts.items()
        if count
    ]
    return f"{dtype} x {columns}: {', '.join(told)}; {spills} spilling instructions"


def main() -> int:
    """Prints a line per dtype and width."""
    parser = argparse.ArgumentParser(description="Instructions per element of the device judge's scan.")
    parser.add_argument("--columns", default="1024,4096", help="widths, separated by commas")
    options = parser.parse_args()
    sys.stdout.write(f"Triton {triton.__version__}, sm_90, instructions per element and the rates they allow\n")
    for columns in options.columns.split(","):
        for dtype in ("float16", "bfloat16", "float32"):
            sys.stdout.write(counted(dtype, int(columns)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
