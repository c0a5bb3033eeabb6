"""Compares two saved reports in everything that must not change when code is moved: verdicts, figures, findings, corpora.

    softcheck report --dtype float16 --format json --output before.json
    python benchmarks/golden.py before.json after.json [...]

Reports are given in pairs. Times, speeds and the environment are left out, and so is ``eager_compiled`` where a GPU compiles it:
which kernel torch.compile picks hangs on what a process met before. Exits 1 where anything differs, and prints where.
"""
# ruff: noqa: INP001, T201 - a script, not a package; it prints

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_OF_THE_RUN = frozenset(
    ("environment", "timings", "stages", "seconds", "speed", "gb_per_s", "speed_vs_torch", "rows_per_second", "notes")
)
"""Names whose values a second run of the same code changes."""
_SHOWN = 20


def load(file: Path) -> Any:
    """The report without what belongs to the run."""
    report = _without(json.loads(file.read_text()))
    if json.loads(file.read_text())["environment"]["backend"] == "cuda":
        for of_variants in ("variants", "exhaustive"):
            report[of_variants] = [each for each in report[of_variants] if each["name"] != "eager_compiled"]
    return report


def differences(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Each place at which two reports differ, with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            yield from differences(before.get(name), after.get(name), f"{place}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            name = one.get("name", one.get("id", index)) if isinstance(one, dict) else index
            yield from differences(one, other, f"{place}[{name}]")
    elif before != after:
        yield f"{place.lstrip('.')}: {_shortened(before)} before, {_shortened(after)} after"


def digest(report: Any) -> str:
    """The first 16 hexadecimal digits of a report's SHA-256."""
    return hashlib.sha256(json.dumps(report, sort_keys=True).encode()).hexdigest()[:16]


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without(held) for name, held in value.items() if name not in _OF_THE_RUN}
    return [_without(held) for held in value] if isinstance(value, list) else value


def _shortened(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 160 else f"{text[:157]}..."


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path, help="pairs of JSON files: before, after, before, after, ...")
    options = parser.parse_args()
    if len(options.reports) % 2:
        parser.error(f"{len(options.reports)} files were given, expected pairs")
    found = 0
    for first, second in zip(options.reports[::2], options.reports[1::2], strict=True):
        before, after = load(first), load(second)
        places = list(differences(before, after))
        print(f"{digest(before)} {digest(after)} {len(places)} differences: {first}, {second}")
        print("".join(f"  {place}\n" for place in places[:_SHOWN]), end="")
        found += len(places)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
