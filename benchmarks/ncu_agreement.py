"""Seconds of ``softcheck bench`` beside those that Nsight Compute reads from the device's own counters.

    python benchmarks/ncu_agreement.py [--output FILE]

Shapes of a variant whose call is one kernel; the median of five profiled launches each, with ncu's caches flushed and the
clocks left alone. Exits 1 where the two differ by 2 % or more on one of the five long shapes, 3 where there is no GPU or no
ncu that can read it.

Ours are a few microseconds longer: the caches that ncu flushes are clean when a launch begins, and what the launch leaves in
them unwritten is not counted, while in our rounds each call makes room by writing back what the one before left. The short
shapes show how much that is; they decide nothing.
"""
# ruff: noqa: INP001 - a script, not a package

import argparse
import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

from softcheck.errors import NothingRunError
from softcheck.run.session import Session
from softcheck.speed.statistics import median_interval

VARIANT = "one_block"
LONG = [
    ("float32", (32768, 4096)),
    ("float32", (32768, 8192)),
    ("float32", (16384, 12672)),
    ("float16", (16384, 32000)),
    ("float16", (262144, 2048)),
]
"""Of 250 microseconds and more on an H200."""
SHAPES = [*LONG, ("float32", (8192, 8192)), ("float16", (65536, 2048))]
LAUNCHES = 5
LIMIT = 0.02
METRIC = "gpu__time_duration.sum"


def main() -> int:
    """Measures both ways; the exit code."""
    parser = argparse.ArgumentParser(description="Compare our timings with ncu's.")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--profiled", action="store_true", help="launch everything between profiler calls, for ncu")
    options = parser.parse_args()
    if options.profiled:
        return _launch()
    ncu = shutil.which("ncu")
    if ncu is None:
        sys.stderr.write("no ncu on the PATH\n")
        return 3
    try:
        session = Session("cuda", jobs=1)
    except NothingRunError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    try:
        ours = [_ours(session, dtype, shape) for dtype, shape in SHAPES]
    finally:
        session.close()
    theirs = _theirs(ncu)
    if len(theirs) != LAUNCHES * len(SHAPES):
        sys.stderr.write(f"ncu reported {len(theirs)} launches, expected {LAUNCHES * len(SHAPES)}\n")
        return 3
    results = []
    for i, (dtype, shape) in enumerate(SHAPES):
        read = median(theirs[i * LAUNCHES : (i + 1) * LAUNCHES])
        results.append({"dtype": dtype, "shape": list(shape), "ours": ours[i], "ncu": read, "ratio": ours[i] / read})
        short = "" if (dtype, shape) in LONG else " (short)"
        sys.stdout.write(
            f"{dtype} {shape[0]}x{shape[1]}{short}: ours {ours[i] * 1e6:.2f} us, ncu {read * 1e6:.2f} us, {ours[i] / read:.4f}\n"
        )
    if options.output:
        found = {"device": session.ready.device, "variant": VARIANT, "results": results}
        options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0 if all(abs(r["ratio"] - 1) < LIMIT for r in results[: len(LONG)]) else 1


def _ours(session: Session, dtype: str, shape: tuple[int, int]) -> float:
    samples = session.time([VARIANT], dtype, shape, seed=0, seconds=1.0)
    if isinstance(samples, str) or not samples.variants[0].seconds:
        raise SystemExit(f"{dtype} {shape}: {samples if isinstance(samples, str) else samples.variants[0].reason}")
    return median_interval(samples.variants[0].seconds).mid


def _theirs(ncu: str) -> list[float]:
    """Seconds of every profiled kernel, in order."""
    flags = [
        "--clock-control",
        "none",
        "--cache-control",
        "all",
        "--profile-from-start",
        "off",
        "--print-units",
        "base",
    ]
    done = subprocess.run(  # noqa: S603 - ncu as found on the PATH, and this file
        [ncu, *flags, "--metrics", METRIC, "--csv", sys.executable, __file__, "--profiled"],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if not lines:
        sys.stderr.write(f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}\n")
        return []
    rows = [row for row in csv.DictReader(lines) if row["Metric Name"] == METRIC]
    unit = {"nsecond": 1e-9, "ns": 1e-9, "usecond": 1e-6, "us": 1e-6}
    return [float(row["Metric Value"].replace(",", "")) * unit[row["Metric Unit"]] for row in rows]


def _launch() -> int:
    from softcheck.run.timing import profile

    for dtype, shape in SHAPES:
        for launch in range(LAUNCHES):
            profile(VARIANT, dtype, shape, launch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
