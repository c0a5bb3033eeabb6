"""The A/A test: one kernel entered twice must come out as fast as itself.

    python benchmarks/aa_test.py [--repetitions 20] [--shape 8192x8192] [--dtype float32] [--output FILE]

Each repetition is a whole measurement with another seed. Prints the ratio of the two names in each and exits 1 where one
misses 1 by 0.5 % or more, 3 without a GPU. Ratios are formed within rounds, as ``softcheck bench`` forms them.
"""
# ruff: noqa: INP001 - a script, not a package

import argparse
import json
import sys
from pathlib import Path

from softcheck.errors import NothingRunError
from softcheck.run.session import Session
from softcheck.speed.samples import parse
from softcheck.speed.statistics import ratio_interval

LIMIT = 0.005
_VARIANTS = Path(__file__).with_name("aa_variants.py")


def main() -> int:
    """Runs the repetitions; the exit code."""
    parser = argparse.ArgumentParser(description="Time one kernel under two names.")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--shape", default="8192x8192")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    (shape,) = parse(options.shape)
    names = [f"{_VARIANTS}:first", f"{_VARIANTS}:second"]
    try:
        session = Session("cuda", jobs=1)
    except NothingRunError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    results = []
    try:
        for repetition in range(options.repetitions):
            samples = session.time(names, options.dtype, shape, seed=repetition, seconds=options.seconds, within=0)
            if isinstance(samples, str):
                sys.stderr.write(f"{samples}\n")
                return 2
            first, second = samples.variants
            ratio = ratio_interval(first.seconds, second.seconds)
            results.append({"ratio": ratio.mid, "low": ratio.low, "high": ratio.high, "rounds": samples.rounds})
            sys.stdout.write(f"{repetition:3} {ratio.mid:.5f} [{ratio.low:.5f}, {ratio.high:.5f}]\n")
        device = session.ready.device
    finally:
        session.close()
    worst = max(abs(r["ratio"] - 1) for r in results)
    sys.stdout.write(f"largest |ratio - 1|: {worst:.5f}, limit {LIMIT}\n")
    if options.output:
        found = {"device": device, "dtype": options.dtype, "shape": list(shape), "largest": worst, "results": results}
        options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0 if worst < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
