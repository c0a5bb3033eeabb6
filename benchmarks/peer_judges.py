"""The judges that kernels are usually tested with, on the planted kernels: how many wrong ones each lets through.

    python benchmarks/peer_judges.py [--device cuda|interpreter] [--parallel N] [--only NAME ...] [--output FILE]

Inputs are what a typical test uses: ``randn`` of 1823 x 781 and 4096 x 1024 (the first 64 rows under the interpreter). The
kernel runs first and torch.softmax on the same tensor after it, as in Triton's tutorial. A judge lets a kernel through where
it accepts every dtype that the file names, in both shapes; a kernel that raises or ends its process is refused by all.
"""
# ruff: noqa: INP001 - a script, not a package

import argparse
import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "planted"))

from planted import Planted, bugs, controls  # noqa: E402 - it lies beside the planted kernels

SHAPES = ((1823, 781), (4096, 1024))
INTERPRETED_ROWS = 64
SECONDS = 120.0
TWICE = "twice torch's error"
"""The rule of flash-attention's tests: the largest error may be twice that of torch in the same type."""
JUDGES = ("allclose 1e-2", "allclose 1e-4", "allclose 1e-5", "assert_close", "row sums 1e-3", TWICE)


def judge_all(planted: list[Planted], device: str, parallel: int) -> dict[str, dict[str, bool]]:
    """By kernel and judge, whether it is let through. Each kernel runs in a process of its own."""
    shares = [planted[first::parallel] for first in range(min(parallel, len(planted)))]
    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        judged = dict(pair for share in pool.map(lambda share: _in_children(share, device), shares) for pair in share)
    return {one.name: judged[one.name] for one in planted}


def summary(verdicts: dict[str, dict[str, bool]], bugs: set[str]) -> str:
    """A table in Markdown: kernels let through of those named in ``bugs``, and others refused, by judge."""
    wrong = [name for name in verdicts if name in bugs]
    right = [name for name in verdicts if name not in bugs]
    lines = ["| judge | wrong kernels let through | right kernels refused |", "|---|---|---|"]
    for judge in JUDGES:
        through = sum(verdicts[name][judge] for name in wrong)
        refused = sum(not verdicts[name][judge] for name in right)
        lines.append(f"| {judge} | {through} of {len(wrong)} | {refused} of {len(right)} |")
    through = sum(all(verdicts[name].values()) for name in wrong)
    lines.append(f"| all {len(JUDGES)} together | {through} of {len(wrong)} | - |")
    return "\n".join(lines)


def _in_children(planted: list[Planted], device: str) -> list[tuple[str, dict[str, bool]]]:
    """The verdicts on a share of the kernels, from one process that has imported what takes long and forks for each."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    if device == "interpreter":
        environment["TRITON_INTERPRET"] = "1"
    tasks = json.dumps([[one.spec, one.dtypes] for one in planted])
    command = [sys.executable, __file__, "--children", "--device", device]
    done = subprocess.run(  # noqa: S603 - this file, on files of this repository
        command, env=environment, input=tasks, capture_output=True, text=True, check=False
    )
    verdicts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(verdicts) != len(planted):
        raise RuntimeError(f"{len(verdicts)} verdicts on {len(planted)} kernels, expected one for each: {done.stderr}")
    return [(one.name, verdict) for one, verdict in zip(planted, verdicts, strict=True)]


def _children(device: str) -> None:
    """Prints as JSON which judges accept each kernel named on the standard input, a line for each."""
    # A GPU's context would not survive the fork; these imports make none.
    import torch  # noqa: F401
    import triton  # noqa: F401

    for spec, dtypes in json.load(sys.stdin):
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_child, args=(sender, spec, device, dtypes))
        child.start()
        sender.close()
        accepted = dict.fromkeys(JUDGES, False)
        if receiver.poll(SECONDS):
            with contextlib.suppress(EOFError):
                accepted = receiver.recv()
        child.kill()
        child.join()
        sys.stdout.write("\n" + json.dumps(accepted) + "\n")
        sys.stdout.flush()


def _child(sender: Any, spec: str, device: str, dtypes: list[str]) -> None:
    """Sends which judges accept a kernel."""
    import torch

    from softcheck.calling.call import TORCH_DTYPES
    from softcheck.variants.registry import load

    place = torch.device("cuda" if device == "cuda" else "cpu")
    rows_kept = None if device == "cuda" else INTERPRETED_ROWS
    function = load(spec).function
    accepted = dict.fromkeys(JUDGES, True)
    torch.manual_seed(0)
    for dtype in dtypes:
        for rows, columns in SHAPES:
            x = torch.randn(rows_kept or rows, columns, device=place).to(TORCH_DTYPES[dtype])
            found = function(x)
            expected = torch.softmax(x, dim=-1)
            exact = torch.softmax(x.double(), dim=-1)
            for judge in JUDGES:
                accepted[judge] = accepted[judge] and _accepts(judge, found, expected, exact)
    sender.send(accepted)


def _accepts(judge: str, found: Any, expected: Any, exact: Any) -> bool:
    import torch

    if judge.startswith("allclose"):
        tolerance = float(judge.rpartition(" ")[2])
        return found.dtype == expected.dtype and torch.allclose(found, expected, rtol=tolerance, atol=tolerance)
    if judge == "assert_close":
        return not _raises(lambda: torch.testing.assert_close(found, expected))
    if judge == TWICE:
        return bool((found.double() - exact).abs().max() <= 2 * (expected.double() - exact).abs().max())
    return bool(((found.float().sum(dim=-1) - 1).abs() < 1e-3).all())


def _raises(act: Callable[[], object]) -> bool:
    try:
        act()
    except AssertionError:
        return True
    return False


def main() -> int:
    """Parse, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "interpreter"), default="interpreter")
    parser.add_argument("--parallel", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--children", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.children:
        _children(options.device)
        return 0
    chosen = [one for one in (*bugs(), *controls()) if options.device in one.backends]
    chosen = [one for one in chosen if not options.only or one.name in options.only]
    verdicts = judge_all(chosen, options.device, options.parallel)
    sys.stdout.write(summary(verdicts, {one.name for one in chosen if not one.is_control}) + "\n")
    if options.output is not None:
        options.output.write_text(json.dumps(verdicts, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
