"""Instructions per element of the device judge's scan, read from its machine code, and the rates that they would allow.

    python benchmarks/judge_instructions.py [--columns 1024,4096] [--run]

Needs no GPU: the kernels are compiled for sm_90 with the ptxas of the installed Triton, and its nvdisasm reads them. Counted
is the loop over rows, divided by the elements that a thread holds. The rates are those of an H200 (132 multiprocessors
at 1.755 GHz) whose one unit is always busy: predictions of what bounds the kernel, not measurements. Lanes per clock and
multiprocessor are from the CUDA C++ programming guide, table of arithmetic throughput, compute capability 9.0: 128 issued
instructions, 64 float64, 64 integer and comparison, and 16 for what the special function unit does, conversions from and
to 64-bit types included.

``--run`` needs one, or exits 3. It measures how fast a loop of as many instructions of each kind runs, evenly mixed, with
nothing to wait for: no memory, no row that begins or ends, no two lanes that count in one bin. Two warps to a scheduler, as the
scan has. That is what the machine allows for these instructions together.
"""
# ruff: noqa: INP001, N803 - a script, not a package; kernels name compile-time constants in capitals

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch
import triton
import triton.language as tl

from oracles.formats import FORMATS
from softcheck.calling.call import TORCH_DTYPES
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.scan import scan
from softcheck.judge.device.tiles import tile
from softcheck.judge.judge import STANDARD
from softcheck.operations import bounds
from softcheck.toolchain.compile import compiling

CLOCKS = 132 * 1.755e9
UNITS = {
    "issue": (128, r"."),
    "float64": (64, r"D(FMA|ADD|MUL|SETP|MNMX)"),
    "special": (16, r"MUFU|F2F|I2F|F2I"),
    "integer": (64, r"LOP3|SEL|VIMNMX|VIADDMNMX|ISETP|LEA|SHF|PRMT|PLOP3|IADD3|FMNMX|FSETP|FSEL|P2R"),
}
"""Lanes per clock of each unit, and the instructions that go there."""

_MIXED = {
    "multiply-add of float64": (r"DFMA|DMUL", "fma.rn.f64 d{i},d{i},e{i},0d3FC0000000000000;"),
    "addition of float64": (r"DADD|DSETP|DMNMX", "add.rn.f64 d{i},d{i},e{i};"),
    "float64 to float32": (
        r"F2F.F32.F64",
        "{{.reg .f32 q;\n.reg .b32 l,h;\ncvt.rn.f32.f64 q,m{i};\nmov.b64 {{l,h}},m{i};\nmov.b32 l,q;\nmov.b64 m{i},{{l,h}};}}",
    ),
    "float64 from narrower": (
        r"F2F.F64",
        "{{.reg .f32 q;\n.reg .b32 l,h;\nmov.b64 {{l,h}},n{i};\nmov.b32 q,l;\ncvt.f64.f32 n{i},q;}}",
    ),
    "reciprocal": (r"MUFU", "rcp.approx.ftz.f32 r{i},r{i};"),
    "float32": (r"FFMA|FMUL|FADD|HADD2|HFMA2", "fma.rn.f32 g{i},g{i},q{i},0f3E000000;"),
    "multiply-add of integers": (r"IMAD", "mad.lo.u32 u{i},u{i},12345,v{i};"),
    "integer and comparison": (UNITS["integer"][1] + r"|V?HMNMX", "shf.l.wrap.b32 w{i},w{i},v{i},5;"),
    "counting": (r"ATOMS", "red.shared.add.u32 [a],1;"),
    "loading from shared memory": (r"LDS", "ld.shared.b32 x{i},[a];"),
    "exchange between lanes": (r"SHFL", "shfl.sync.bfly.b32 y{i},y{i},1,31,-1;"),
}
"""Instructions of the loop by kind, and what stands for one of each in PTX; what is none of these, few in a hundred, is left out."""
_REGISTERS = 16
_GOLDEN = 0.618034
_ELEMENTS, _TURNS, _THREADS = 4, 20_000, 256

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
    """Index of the instruction that a branch may jump to; None for other instructions."""
    jump = re.match(r"BRA.*`\((\.L_x_\d+)\)", instruction)
    return labels.get(jump[1]) if jump else None


@triton.jit
def _mixed_kernel(out: tl.tensor, turns: tl.tensor, PTX: tl.constexpr) -> None:
    found = tl.inline_asm_elementwise(PTX, "=f,r", [turns], dtype=tl.float32, is_pure=False, pack=1)
    tl.store(out + tl.program_id(0), found)


def mixed(loop: list[str], per_thread: float) -> str:
    """PTX of a loop with the instructions of ``_ELEMENTS`` elements of a loop of the scan, each kind evenly spread."""
    order: list[tuple[float, str, int]] = []
    for kind, (pattern, ptx) in enumerate(_MIXED.values()):
        many = round(sum(bool(re.match(pattern, i)) for i in loop) / per_thread * _ELEMENTS)
        # Kinds as frequent as each other begin in different places, or all of them would follow one another.
        begin = kind * _GOLDEN % 1
        order += [((number + begin) / many, ptx, number % _REGISTERS) for number in range(many)]
    body = [ptx.format(i=number) for _, ptx, number in sorted(order)]
    registers = {"f64": "demn", "f32": "grq", "b32": "uvwxy"}
    declared = [f".reg .{kind} {name}<{_REGISTERS}>;" for kind, names in registers.items() for name in names]
    begun = [
        f"cvt.rn.{kind}.u32 {name}{i},t;" if kind != "b32" else f"add.u32 {name}{i},t,{i};"
        for kind, names in registers.items()
        for name in names
        for i in range(_REGISTERS)
    ]
    ended = [f"cvt.rn.f32.f64 f,{name}{i};\nadd.f32 s,s,f;" for name in "dmn" for i in range(_REGISTERS)]
    ended += [f"add.f32 s,s,{name}{i};" for name in "gr" for i in range(_REGISTERS)]
    ended += [f"cvt.rn.f32.u32 f,{name}{i};\nadd.f32 s,s,f;" for name in "uwxy" for i in range(_REGISTERS)]
    return "\n".join(
        [
            "{",
            *declared,
            ".reg .b32 t,a,k;\n.reg .f32 s,f;\n.reg .pred p;",
            f".shared .align 4 .b32 softcheck_mixed[{_THREADS}];",
            "mov.u32 t,%tid.x;\nmov.u32 a,softcheck_mixed;\nmad.lo.u32 a,t,4,a;\nmov.u32 k,0;\nmov.f32 s,0f00000000;",
            *begun,
            "TURN:",
            *body,
            "add.u32 k,k,1;\nsetp.lt.u32 p,k,$1;\n@p bra TURN;",
            *ended,
            "mov.f32 $0,s;\n}",
        ]
    )


def run(loop: list[str], per_thread: float) -> float:
    """Gelements/s of ``mixed`` on this GPU."""
    ptx = mixed(loop, per_thread)
    programs = torch.cuda.get_device_properties("cuda").multi_processor_count
    out = torch.empty(programs, device="cuda")
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(2):
        begin.record()
        _mixed_kernel[(programs,)](out, _TURNS, ptx, num_warps=_THREADS // 32)
        end.record()
    end.synchronize()
    return programs * _THREADS * _ELEMENTS * _TURNS / begin.elapsed_time(end) / 1e6


def counted(dtype: str, columns: int, *, running: bool) -> str:
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
    rates = ", ".join(
        f"{unit} {count / per_thread:.1f} ({CLOCKS * UNITS[unit][0] * per_thread / count / 1e9:.0f} G/s)"
        for unit, count in counts.items()
        if count
    )
    together = f"; all together run at {run(loop, per_thread):.0f} G/s" if running else ""
    return f"{dtype} x {columns}: {rates}; {spills} spilling instructions{together}"


def main() -> int:
    """Prints a line per dtype and width."""
    parser = argparse.ArgumentParser(description="Instructions per element of the device judge's scan.")
    parser.add_argument("--columns", default="1024,4096", help="widths, separated by commas")
    parser.add_argument("--run", action="store_true", help="also run as many instructions of each kind on this GPU")
    options = parser.parse_args()
    if options.run and not torch.cuda.is_available():
        sys.stderr.write("no CUDA device, expected one for --run; without it no device is needed\n")
        return 3
    sys.stdout.write(f"Triton {triton.__version__}, sm_90, instructions per element and the rates they allow\n")
    for columns in options.columns.split(","):
        for dtype in ("float16", "bfloat16", "float32"):
            sys.stdout.write(counted(dtype, int(columns), running=options.run) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
