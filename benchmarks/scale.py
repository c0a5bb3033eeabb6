"""One report on this machine's one GPU, then on 1, 2, 4, … of its GPUs: its time, speed-up, how long GPUs waited, its digest.

    python benchmarks/scale.py FOLDER [--workers 1,2] [-- REPORT OPTIONS ...]

The report is of all built-in softmax variants in four dtypes if no options are given. ``--workers 1,2`` takes places without a GPU instead. A GPU
waits in each of its seconds in which NVML saw no kernel. Digests leave out times, and how much the probes tried that go on until a time is
over. Reports and the table, scale.json, go to FOLDER. Exits 1 where digests differ or a report fails to end, 3 without a GPU.
"""
# ruff: noqa: INP001, T201 - a script, not a package; it prints

import argparse
import json
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from softcheck.cluster.local import gpus_seen
from softcheck.report.json_format import load

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from digest import BY_THE_CLOCK, digest

EVERYTHING = ["--dtype", "float16", "--dtype", "bfloat16", "--dtype", "float32", "--dtype", "float64"]


@dataclass(slots=True)
class Measured:
    """One run of the report."""

    devices: int
    """0 without a cluster."""
    seconds: float
    speed_up: float
    waited: float | None
    """Share of their seconds in which GPUs ran no kernel; None without a GPU."""
    digest: str
    verdicts: dict[str, int]


def main() -> int:
    """Runs the reports, and prints and saves the table."""
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    there = len(gpus_seen()) if options.workers is None else 0
    counts = [n for n in (0, 1, 2, 4, 8) if n <= there] if options.workers is None else [0, *options.workers]
    if counts == [0]:
        sys.stderr.write("no CUDA device; nothing was run. --workers 1,2 takes workers without a GPU\n")
        return 3
    found: list[Measured] = []
    for count in counts:
        one = _run(options, count, found[0].seconds if found else None)
        if one is None:
            return 1
        found.append(one)
        waited = "?" if one.waited is None else f"{one.waited:.0%}"
        print(
            f"{f'{count} devices' if count else 'no cluster'}: {one.seconds:.1f} s, speed-up {one.speed_up:.2f}, GPUs waited {waited} of the time, digest "
            f"{one.digest}, {one.verdicts}",
            flush=True,
        )
        (options.folder / "scale.json").write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")
    same = len({one.digest for one in found}) == 1
    print("all digests are equal" if same else "DIGESTS DIFFER")
    return 0 if same else 1


def _run(options: argparse.Namespace, count: int, alone: float | None) -> Measured | None:
    output = options.folder / f"{count}.json"
    if count == 0:
        where = ["--device", "interpreter" if options.workers else "cuda"]
    else:
        where = ["--workers", str(count)] if options.workers else ["--gpus", ",".join(map(str, range(count)))]
    words = [sys.executable, "-m", "softcheck", "report", *(options.report or EVERYTHING), *where]
    begun = time.monotonic()
    with (output.with_suffix(".log")).open("w") as log:
        running = subprocess.Popen([*words, "--format", "json", "--output", str(output)], stderr=log)  # noqa: S603 - ours
        over = threading.Event()
        samples: list[list[float]] = []
        threads = [threading.Thread(target=_watch, args=(over, samples, max(1, count)))] if not options.workers else []
        for thread in threads:
            thread.start()
        status = running.wait()
        over.set()
        for thread in threads:
            thread.join()
    seconds = time.monotonic() - begun
    if status not in {0, 1}:
        print(f"{count} devices: the report ended with {status}; see {log.name}")
        return None
    report = load(output)
    verdicts = [row.verdict for row in report.variants]
    busy = [share for sample in samples for share in sample]
    return Measured(
        devices=count,
        seconds=seconds,
        speed_up=(alone or seconds) / seconds,
        waited=1.0 - sum(busy) / len(busy) if busy else None,
        digest=digest(report, BY_THE_CLOCK),
        verdicts={verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
    )


def _watch(over: threading.Event, samples: list[list[float]], count: int) -> None:
    """Keeps the share of the last second in which each GPU ran a kernel."""
    query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    while not over.wait(1.0):
        told = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split()  # noqa: S603 - a fixed command
        samples.append([float(word) / 100 for word in told[:count] if word.isdecimal()])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--workers", type=lambda text: [int(word) for word in text.split(",")], metavar="N,N")
    mine, given = sys.argv[1:], []
    if "--" in mine:
        mine, given = mine[: mine.index("--")], mine[mine.index("--") + 1 :]
    return argparse.Namespace(**vars(parser.parse_args(mine)), report=given)


if __name__ == "__main__":
    sys.exit(main())
