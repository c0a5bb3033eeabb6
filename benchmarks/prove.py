"""Everything that only a GPU can show, in one command: checks first, then judged results, then timings.

    python benchmarks/prove.py FOLDER [--only STEP ...] [--budget SECONDS] [--list]

Steps that only check run side by side, steps whose seconds matter run alone. Each step runs in FOLDER, so that results hold
no path of the machine, and has a log there, STEP.log. A step that would not fit into ``--budget`` is left out and named. The
table of all steps, FOLDER/steps.json, is written anew whenever one ends, so that a run which is cut off leaves what it has.
softcheck need not be installed, what it depends on must be. Exits 1 where a step failed or was left out, 3 without a GPU.
"""
# ruff: noqa: INP001, T201 - a script, not a package; it prints

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from softcheck.operations.registry import operation  # noqa: E402 - as below
from softcheck.variants.builtin.declarations import WITH_MASKS  # noqa: E402 - from the checkout, installed or not
from softcheck.variants.registry import BUILTIN, BUILTIN_OF  # noqa: E402 - as above

_PLUGIN = "softcheck.pytest_plugin"


@dataclass(frozen=True, slots=True)
class Step:
    """One command, as someone would type it: ``softcheck …``, ``pytest …`` or ``python benchmarks/…``."""

    name: str
    command: str
    limit: float
    """Seconds after which it is interrupted."""
    alone: bool = True
    """Nothing else may use the GPU meanwhile: its seconds matter, or it fills the memory."""


_APART = ("accuracy", "planted", "speed", "cluster", "test_packaging.py", "test_ci_docs.py", "report/test_schema.py")
"""Tests with steps of their own, and those that need Dask, or tools which build packages or read schemas; none of these needs a GPU."""

_APART_OF = ("softmax", "attention", "attention_logsumexp")
"""Operations with reports of their own, and one whose variant takes as long as an attention."""

STEPS = (
    Step(
        "gpu-tests",
        f"pytest -m gpu -n 6 {' '.join(f'--ignore=tests/{name}' for name in _APART)} tests",
        240,
        alone=False,
    ),
    Step(
        "ptx",
        "pytest -n 4 tests/variants tests/toolchain tests/judge -k 'ptx or device or arithmetic'",
        240,
        alone=False,
    ),
    Step("explained", "pytest -n 6 tests/test_explain.py", 120, alone=False),
    Step("speed-tests", "pytest -m gpu -n 0 tests/speed", 120),
    *(
        Step(
            f"planted-{which}",
            f"python benchmarks/planted_score.py --device cuda --every --{which} --no-peers --parallel 15 --seconds {seconds} "
            f"--one-dtype --shown-first --output planted-{which}",
            580,
        )
        for which, seconds in (("right", 100), ("wrong", 60))
    ),
    *(
        Step(
            f"pairs-{d}",
            f"softcheck exhaust {' '.join(BUILTIN)} --dtype {d} --columns 2 --format json --output pairs-{d}.json",
            150,
        )
        for d in ("float16", "bfloat16")
    ),
    *(
        Step(d, f"softcheck report --dtype {d} --timings --format json --output {d}.json", 300)
        for d in ("float16", "bfloat16", "float32", "float64")
    ),
    *(
        Step(
            f"operations-{d}",
            f"softcheck report {' '.join(name for of, names in BUILTIN_OF.items() if of not in _APART_OF for name in names)} "
            f"--dtype {d} --timings --format json --output operations-{d}.json",
            420,
        )
        for d in ("float16", "bfloat16", "float32", "float64")
    ),
    Step(
        "pairs-operations-float16",
        f"softcheck exhaust {' '.join(name for of in ('log_softmax', 'cross_entropy') for name in BUILTIN_OF[of])} --dtype float16 "
        "--columns 2 --format json --output pairs-operations-float16.json",
        420,
    ),
    *(
        Step(
            f"masked-{d}",
            f"softcheck report {' '.join(WITH_MASKS)} --dtype {d} --timings --format json --output masked-{d}.json",
            240,
        )
        for d in ("float16", "bfloat16", "float32", "float64")
    ),
    Step(
        "attention-logsumexp",
        f"softcheck report {' '.join(BUILTIN_OF['attention_logsumexp'])} --timings --format json --output attention-logsumexp.json",
        240,
    ),
    Step("bench-cross-entropy", "softcheck bench --operation cross_entropy --dtype bfloat16 --shapes 8192x128256", 90),
    *(
        Step(
            f"attention-{d}",
            f"softcheck report {' '.join(BUILTIN_OF['attention'])} --dtype {d} --peers --timings --format json "
            f"--output attention-{d}.json",
            420,
        )
        for d in ("float16", "bfloat16", "float32")
    ),
    Step("first-answer", "python benchmarks/first_answer.py --only one_block --output first-answer.md", 120),
    Step("one-variant", "softcheck report --variant one_block --dtype float16 --timings --format summary", 90),
    Step("accuracy", "pytest -m accuracy -n 10 --softcheck-device cuda tests/accuracy", 400),
    Step(
        "differences",
        "softcheck exhaust torch one_block --dtype float32 --columns 2 --differences --format json --output differences.json",
        120,
    ),
    Step(
        "slice",
        "softcheck exhaust multi_row --columns 3 --sample-first 4294967296 --format summary --output slice.txt",
        60,
    ),
    *(
        Step(f"every-{name}", f"python benchmarks/every_option.py {command}", 240, alone=False)
        for name, command in (
            ("mask", "masks causal_online"),
            ("mask-from-the-end", "masks causal_online_bottom_right"),
            ("scale", "scales scaled_masked_one_block"),
            ("loss", "losses tests/kernels/every_loss.py:loss@operation=cross_entropy"),
        )
    ),
    Step(
        "false-alarms",
        "python benchmarks/false_alarms.py --jobs 9 --elements 3.4e11 --seconds 480 --output false-alarms.json",
        560,
    ),
    Step("bench-judge", "python benchmarks/bench_judge.py", 300),
    *(
        Step(
            f"false-alarms-{name.replace('_', '-')}",
            f"python benchmarks/false_alarms.py --operation {name} --jobs 2 --elements 1.2e10 --seconds 75 "
            f"--output false-alarms-{name}.json",
            120,
        )
        for name in BUILTIN_OF
        if operation(name).on_device is not None
    ),
    Step("sources", "python benchmarks/source_tables.py . --seconds 0.25", 250),
    Step("attention", "python benchmarks/attention.py --heads 64 --length 4096 --head-dim 128", 120),
    Step("ncu", "python benchmarks/ncu_agreement.py --output ncu-agreement.json", 90),
)


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a step."""

    name: str
    command: str
    outcome: Literal["passed", "failed", "too slow", "left out"]
    seconds: float = 0.0
    status: int | None = None


def _in_checkout(word: str) -> str:
    """The word with the checkout's folder before a path of its own, since steps run elsewhere."""
    is_path = word.split("/", maxsplit=1)[0] in ("benchmarks", "tests")
    return str(ROOT / word) if is_path else word.replace("=tests", f"={ROOT}/tests")


def words(command: str) -> list[str]:
    """The command with this Python and this checkout in place of the short names."""
    first, *rest = shlex.split(command)
    if first == "softcheck":
        return [sys.executable, "-m", "softcheck.cli.main", *rest]
    if first == "pytest":
        # pytest-benchmark, where it is installed, warns beside pytest-xdist, and warnings are errors.
        options = ["-p", "no:cacheprovider", "-p", "no:benchmark", f"--rootdir={ROOT}", f"-c{ROOT}/pyproject.toml"]
        if not any(point.value == _PLUGIN for point in entry_points(group="pytest11")):
            options += ["-p", _PLUGIN]
        return [sys.executable, "-m", "pytest", *options, *map(_in_checkout, rest)]
    return [sys.executable, *map(_in_checkout, rest)]


class Running:
    """A step under way, in a process group of its own."""

    def __init__(self, step: Step, folder: Path) -> None:
        self.step = step
        self.begun = time.monotonic()
        self.interrupted = False
        self._log = (folder / f"{step.name}.log").open("wb")
        self._process = subprocess.Popen(  # noqa: S603 - the commands above
            words(step.command),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])},
        )

    def done(self) -> Done | None:
        """Returns how the step ended; None while it runs.

        Interrupts the step at its limit and kills it 20 seconds later.
        """
        seconds = time.monotonic() - self.begun
        status = self._process.poll()
        if status is None:
            if seconds > self.step.limit + 20:
                self.kill()
            elif seconds > self.step.limit and not self.interrupted:
                self.interrupted = True
                os.killpg(self._process.pid, signal.SIGINT)
            return None
        self._log.close()
        outcome: Literal["passed", "failed", "too slow"] = "passed" if status == 0 else "failed"
        return Done(
            self.step.name, self.step.command, "too slow" if self.interrupted else outcome, round(seconds, 1), status
        )

    def kill(self) -> None:
        """Ends it at once, with all that it started in its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kills it and waits for its end."""
        self.kill()
        self._process.wait()
        self._log.close()


def run(steps: tuple[Step, ...], folder: Path, budget: float) -> list[Done]:
    """Runs the steps in order, neighbours that need not be alone side by side, and returns how each ended."""
    begun = time.monotonic()
    ended: list[Done] = []
    waiting = list(steps)
    running: list[Running] = []
    try:
        while waiting or running:
            for one in list(running):
                done = one.done()
                if done is not None:
                    running.remove(one)
                    record(done, ended, folder)
            while waiting and (not running or not (waiting[0].alone or running[0].step.alone)):
                step = waiting.pop(0)
                left = budget - (time.monotonic() - begun)
                if left < min(step.limit, 30.0):
                    record(Done(step.name, step.command, "left out"), ended, folder)
                    continue
                running.append(Running(replace(step, limit=min(step.limit, left)), folder))
            time.sleep(0.2)
    finally:
        # Ctrl-C does not reach their groups, and the GPU is to be free when this has ended.
        for one in running:
            one.close()
    return ended


def record(done: Done, ended: list[Done], folder: Path) -> None:
    """Prints how a step ended, with the last line of its log, and saves all."""
    ended.append(done)
    log = folder / f"{done.name}.log"
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    print(f"{done.outcome:9} {done.seconds:7.1f} s  {done.name}: {last[:160]}", flush=True)
    (folder / "steps.json").write_text(json.dumps([asdict(d) for d in ended], indent=1) + "\n")


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("proof"))
    parser.add_argument("--only", nargs="+", choices=[s.name for s in STEPS], metavar="STEP")
    parser.add_argument("--budget", type=float, default=3600.0, help="seconds for all steps")
    parser.add_argument("--list", action="store_true", help="print the steps and their commands, run nothing")
    options = parser.parse_args()
    steps = tuple(s for s in STEPS if not options.only or s.name in options.only)
    if options.list:
        for step in steps:
            print(f"{step.name:26} {step.limit:4.0f} s  {step.command}")
        return 0
    import torch  # so that --list and --help answer at once

    if not torch.cuda.is_available():
        print("prove: no CUDA device; these steps are the ones that need one", file=sys.stderr)
        return 3
    options.folder.mkdir(parents=True, exist_ok=True)
    ended = run(steps, options.folder.resolve(), options.budget)
    bad = [d for d in ended if d.outcome != "passed"]
    print(f"{len(ended) - len(bad)} of {len(ended)} steps passed" + "".join(f"; {d.name} {d.outcome}" for d in bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
