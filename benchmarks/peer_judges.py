"""The judges that kernels are usually tested with, on the planted kernels: how many wrong ones each lets through.

    python benchmarks/peer_judges.py [--device cuda|interpreter] [--parallel N] [--only NAME ...] [--output FILE]

Inputs are what a typical test uses: ``randn`` of 1823 x 781 and 4096 x 1024 (the first 64 rows under the interpreter). The
kernel runs first and torch.softmax on the same tensor after it, as in Triton's tutorial. A judge lets a kernel through where
it accepts every dtype that the file names, in both shapes; a kernel that raises or ends its process is refused by all.
"""
# ruff: noqa: INP001 - a script, not a package

import argparse
import concurrent.futures
import json
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
JUDGES = ("allclose 1e-2", "allclose 1e-4", "allclose 1e-5", "assert_close", "row sums 1e-3")


def judge_all(planted: list[Planted], device: str, parallel: int) -> dict[str, dict[str, bool]]:
    """By kernel and judge, whether it is let through. Each kernel runs in a process of its own."""
    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        verdicts = pool.map(lambda one: _in_child(one, device), planted)
        return {one.name: verdict for one, verdict in zip(planted, verdicts, strict=True)}


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
    lines.append(f"| all five together | {through} of {len(wrong)} | - |")
    return "\n".join(lines)


def _in_child(planted: Planted, device: str) -> dict[str, bool]:
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    if device == "interpreter":
        environment["TRITON_INTERPRET"] = "1"
    command = [sys.executable, __file__, "--child", planted.spec, "--device", device, "--dtypes", *planted.dtypes]
    try:
        done = subprocess.run(  # noqa: S603 - this file, on files of this repository
            command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        accepted: dict[str, bool] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
    except (subprocess.TimeoutExpired, IndexError, ValueError):
        accepted = {}
    return {judge: accepted.get(judge, False) for judge in JUDGES}


def _child(spec: str, device: str, dtypes: list[str]) -> None:
    """Prints as JSON which judges accept the kernel."""
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
            for judge in JUDGES:
                accepted[judge] = accepted[judge] and _accepts(judge, found, expected)
    sys.stdout.write(json.dumps(accepted) + "\n")


def _accepts(judge: str, found: Any, expected: Any) -> bool:
    import torch

    if judge.startswith("allclose"):
        tolerance = float(judge.rpartition(" ")[2])
        return found.dtype == expected.dtype and torch.allclose(found, expected, rtol=tolerance, atol=tolerance)
    if judge == "assert_close":
        return not _raises(lambda: torch.testing.assert_close(found, expected))
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
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--dtypes", nargs="*", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options.child, options.device, options.dtypes)
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
