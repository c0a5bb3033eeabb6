"""Comparison of the device judge with the numpy judge, on variants' outputs for every case of the corpora.

    python benchmarks/judge_agreement.py [--jobs 12] [--seconds 300] [--variants torch,multi_row] [--families normal,special]
                                         [--elements 262144] [--output FILE]

The default variants are right ones and ones that break promises, so that both judges have rows to pass and rows to look at
closely. Of order violations, which the device judge tells of the rows that it hands to the host, both must find some or none.
Cases of more elements are cut to their first rows; float64 is left out, since numpy judges it everywhere. Cases of one
width are one process's work, which compiles the judge's kernels for it. After ``--seconds`` no other output is begun. Exits 1
where the judges disagree or nothing was judged, 3 where there is no CUDA device, 4 where all was right but time was short.
"""
# ruff: noqa: INP001 - a script, not a package

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import get_args

import torch

from softcheck.calling.call import place, to_bits
from softcheck.cases.case import Case
from softcheck.cases.corpus import default_corpora, load
from softcheck.contract import FindingKind
from softcheck.judge.device import dispatch
from softcheck.judge.device.agreement import differing, without_order
from softcheck.judge.device.judge import judge_on_device
from softcheck.judge.judge import judge
from softcheck.judge.measurement import Measurement
from softcheck.run.plan import left_out
from softcheck.variants.declaration import Declaration
from softcheck.variants.registry import load as load_variant

VARIANTS = (
    "torch",
    "eager",
    "one_block",
    "multi_row",
    "online",
    "exp2_prescaled",
    "notebook_basic",
    "notebook_vectorized",
)
UNFINISHED = 4


@cache
def _cases() -> tuple[Case, ...]:
    return tuple(case for case in load(default_corpora()) if case.dtype != "float64")


def compared(
    width: int, names: list[str], families: set[str] | None, most_elements: int, until: float
) -> list[list[str]]:
    """Variant, case and outcome of each output for cases of that width; ``until`` is a time of the monotonic clock.

    The outcome is "agree", "no output", "no time", or what the judges disagree on.
    """
    variants = [load_variant(name) for name in names]
    found = []
    for case in _cases():
        if case.shape[1] != width or (families and case.family not in families):
            continue
        bits = case.bits(max(1, most_elements // max(1, width)))
        placed = place(bits, case.format, case.layout, torch.device("cuda"))
        for variant in variants:
            if case.dtype not in variant.declaration.dtypes or left_out(case, variant.declaration):
                continue
            outcome = "no time"
            if time.monotonic() < until:
                try:
                    output = variant.function(placed.view)
                    torch.cuda.synchronize()
                except Exception:  # noqa: BLE001 - a variant's failure is no matter of the judges
                    outcome = "no output"
                else:
                    outcome = _compared(case, placed.view, output, variant.declaration)
            found.append([variant.name, case.id, outcome])
    return found


def _compared(case: Case, x: torch.Tensor, output: torch.Tensor, promise: Declaration) -> str:
    ours = judge_on_device(x, output, case.format, fully_masked=promise.fully_masked)
    theirs = judge(
        to_bits(x, case.format), to_bits(output, case.format), case.format, fully_masked=promise.fully_masked
    )
    if 0 < _disordered(ours) <= _disordered(theirs):
        ours, theirs = without_order(ours), without_order(theirs)
    return differing(ours, theirs) or "agree"


def _disordered(measurement: Measurement) -> int:
    return sum(v.count for v in measurement.violations if v.kind is FindingKind.ORDER_VIOLATION)


def main() -> int:
    """Compares the judges; the exit code is 0, 1, 3 or 4."""
    parser = argparse.ArgumentParser(description="Agreement of the device judge with the numpy judge.")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) - 2), help="processes at once")
    parser.add_argument("--seconds", type=float, default=300.0, help="begin no output after so many seconds")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="names, separated by commas")
    parser.add_argument("--families", help="families of cases, separated by commas; default all")
    parser.add_argument("--elements", type=int, default=1 << 18, help="cases are cut to so many elements")
    parser.add_argument("--output", type=Path, help="write what was found as JSON")
    parser.add_argument(
        "--arithmetic", choices=get_args(dispatch.JudgedIn), help="of the scan; default the faster by measured rates"
    )
    options = parser.parse_args()
    if options.arithmetic:
        os.environ[dispatch.VARIABLE] = options.arithmetic
    if not torch.cuda.is_available():
        sys.stderr.write("no CUDA device; nothing was run\n")
        return 3
    names, families = options.variants.split(","), set(options.families.split(",")) if options.families else None
    until = time.monotonic() + options.seconds
    outcomes: dict[str, Counter[str]] = {name: Counter() for name in names}
    apart = []
    # The widths of most cases first: a long one at the end would be waited for.
    widths = [width for width, _ in Counter(case.shape[1] for case in _cases()).most_common()]
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        runs = [pool.submit(compared, width, names, families, options.elements, until) for width in widths]
        for run in as_completed(runs):
            for name, case, outcome in run.result():
                known = outcome in ("agree", "no output", "no time")
                outcomes[name][outcome if known else "disagree"] += 1
                if not known:
                    apart.append({"variant": name, "case": case, "differing": outcome})
                    sys.stdout.write(f"{case} {name}: {outcome}\n")
                    sys.stdout.flush()
    for name, counts in outcomes.items():
        sys.stdout.write(f"{name:24}" + "".join(f"  {what} {count}" for what, count in sorted(counts.items())) + "\n")
    if options.output:
        document = {
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "most_elements": options.elements,
            "outputs": outcomes,
            "disagreements": apart,
        }
        options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    judged = sum(counts["agree"] + counts["disagree"] for counts in outcomes.values())
    late = sum(counts["no time"] for counts in outcomes.values())
    sys.stdout.write(f"{judged} outputs judged twice, {len(apart)} disagreements; {late} outputs not reached in time\n")
    if apart or not judged:
        return 1
    return UNFINISHED if late else 0


if __name__ == "__main__":
    sys.exit(main())
