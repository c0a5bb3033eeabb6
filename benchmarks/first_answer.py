"""Seconds until a report's first verdict and until its end, cold and warm, alone and four at once.

    python benchmarks/first_answer.py [--dtype float16] [--output first-answer.md] [--only NAME ...] [--four]

Each command runs on a terminal of its own (a pseudo-terminal), first with empty caches of Triton and Inductor, then again with
what the first run left there. The fair share of four reports at once is the CPU time of the four, alone and warm, divided by
the cores, or the longest of the four alone where that is more. Exits 1 where a command exits with anything but 0.
"""
# ruff: noqa: INP001, T201 - a script, not a package; it prints

import argparse
import json
import os
import platform
import pty
import re
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_VERDICT = re.compile(rb"\b(pass|known|fail|error)\b")
_AT_ONCE = ("one_block", "online", "multi_row", "persistent")


@dataclass(frozen=True, slots=True)
class Timed:
    """One run of one command."""

    name: str
    command: str
    caches: str
    status: int
    first_verdict: float | None
    """Seconds until the first line with a verdict stood on the terminal."""
    seconds: float
    cpu_seconds: float
    """Of the process and all that it waited for."""
    last: str
    """The last line of the output."""


def commands(dtype: str, *, on_gpu: bool) -> dict[str, str]:
    """The commands by name."""
    named = {
        "tutorial 02's design": "examples/tutorial_softmax.py:softmax",
        "one block, no cap": "examples/uncapped_one_block.py:softmax",
        "one_block": "one_block",
    }
    found = {name: f"softcheck report --variant {spec} --dtype {dtype}" for name, spec in named.items()}
    return found if on_gpu else found | {"all variants": f"softcheck report --dtype {dtype}"}


def run(name: str, command: str, caches: str, folder: str) -> Timed:
    """Runs a command on a terminal, with Triton's and Inductor's caches in ``folder``."""
    words = [sys.executable, "-m", "softcheck.cli.main", *shlex.split(command)[1:]]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "TRITON_CACHE_DIR": f"{folder}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        "PYTHONPATH": os.pathsep.join(paths),
        "COLUMNS": "160",
        "TERM": "xterm",
    }
    ours, theirs = pty.openpty()
    begun = time.monotonic()
    process = subprocess.Popen(  # noqa: S603 - the commands above
        words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    first: float | None = None
    said = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # how Linux says that the other side of a terminal is closed
            break
        if not part:
            break
        said += part
        if first is None and _VERDICT.search(said):
            first = time.monotonic() - begun
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    os.close(ours)
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    cpu = usage.ru_utime + usage.ru_stime
    return Timed(name, command, caches, process.returncode, first, seconds, cpu, lines[-1] if lines else "")


def at_once(dtype: str, folder: str) -> list[Timed]:
    """Four reports of one variant each, at once with empty caches, then alone, then at once again, both with warm ones."""
    named = [(spec, f"softcheck report --variant {spec} --dtype {dtype}") for spec in _AT_ONCE]

    def together(caches: str) -> list[Timed]:
        with ThreadPoolExecutor(len(named)) as threads:
            return list(threads.map(lambda each: run(*each, caches, folder), named))

    cold = together("four at once, cold")
    alone = [run(*each, "alone", folder) for each in named]
    return [*cold, *alone, *together("four at once")]


def table(done: list[Timed]) -> list[str]:
    """The runs as a Markdown table."""
    lines = ["| command | caches | first verdict, s | in all, s | CPU, s | exit code |", "|---|---|---|---|---|---|"]
    for each in done:
        first = "-" if each.first_verdict is None else f"{each.first_verdict:.1f}"
        lines.append(
            f"| `{each.command}` | {each.caches} | {first} | {each.seconds:.1f} | {each.cpu_seconds:.0f} | {each.status} |"
        )
    return lines


def fair_share(done: list[Timed]) -> str:
    """The longest of four reports at once beside their fair share."""
    alone = [each for each in done if each.caches == "alone"]
    together = [each for each in done if each.caches == "four at once"]
    cores = len(os.sched_getaffinity(0))
    share = max(*(each.seconds for each in alone), sum(each.cpu_seconds for each in alone) / cores)
    longest = max(each.seconds for each in together)
    return f"Four reports at once: {longest:.1f} s, {longest / share:.2f} times their fair share of {share:.1f} s on {cores} cores."


def machine(*, on_gpu: bool) -> str:
    """The processor, its cores and the GPU."""
    model = platform.processor()
    information = Path("/proc/cpuinfo")
    if information.exists():
        found = re.search(r"model name\s*:\s*(.+)", information.read_text())
        model = found[1] if found else model
    gpu = ""
    if on_gpu:
        import torch

        gpu = f", {torch.cuda.get_device_name()}"
    return f"{model}, {len(os.sched_getaffinity(0))} cores{gpu}"


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--output", type=Path, help="Markdown file, and .json beside it")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--four", action="store_true", help="four reports at once as well")
    options = parser.parse_args()
    import torch

    on_gpu = torch.cuda.is_available()
    done = []
    with tempfile.TemporaryDirectory() as work:
        for name, command in commands(options.dtype, on_gpu=on_gpu).items():
            if options.only and name not in options.only:
                continue
            for caches in ("cold", "warm"):
                done.append(run(name, command, caches, f"{work}/{name}"))
                print(f"{done[-1].seconds:6.1f} s  {caches}  {name}: {done[-1].last}", flush=True)
        said = [machine(on_gpu=on_gpu), "", *table(done)]
        if options.four:
            four = at_once(options.dtype, f"{work}/four")
            said += ["", *table(four), "", fair_share(four)]
            done += four
    print("\n".join(said))
    if options.output:
        options.output.write_text("\n".join(said) + "\n")
        options.output.with_suffix(".json").write_text(json.dumps([asdict(each) for each in done], indent=1) + "\n")
    return 0 if all(each.status == 0 for each in done) else 1


if __name__ == "__main__":
    sys.exit(main())
