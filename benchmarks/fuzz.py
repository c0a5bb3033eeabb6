"""Feeds mutated files and arguments to everything that reads a stranger's: only SoftcheckError may come of it.

    python benchmarks/fuzz.py [--inputs 1000000] [--seed 0] [--target corpus]

Targets: ``corpus`` (a line of a corpus, and the bits that it describes), ``result`` (a saved report, and its drawing),
``journal``, ``variant`` (an argument of --variant). Inputs are real ones with bytes changed, or with a value of their JSON
replaced by a hostile one. Prints inputs per second, how many were refused, and every other exception once; exits 1 if any.
"""
# ruff: noqa: INP001, T201, S311 - a script, not a package; it prints; its random numbers are no secrets

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from softcheck.cases.check import check_contents
from softcheck.cases.corpus import builtin_root, decode_case
from softcheck.errors import SoftcheckError
from softcheck.report import formats, json_format
from softcheck.run.journal import Journal
from softcheck.variants.registry import known_names, resolve

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e308, 5e-324),
    *("", " ", "\0", "\x1b[2J", "..", "/", "nan", "inf", "-inf", "float16", "\ud800", "e" * 5000, "%s{0}", "名"),
    *([], {}, [[]], [None], {"": None}, [0] * 300, [[[[[[[[]]]]]]]]),
)
MOST_ELEMENTS = 2**12
"""Bits of larger cases are not made: their size is checked where they are run."""


@dataclass
class Score:
    """What became of a target's inputs."""

    inputs: int = 0
    refused: int = 0
    faults: dict[str, str] = field(default_factory=dict)
    """Traceback and input by the place that raised."""


def mutated_json(rng: random.Random, value: Any) -> Any:
    """The value with one leaf or branch replaced, removed or renamed."""
    if rng.random() < 0.15 or not isinstance(value, dict | list) or not value:
        return rng.choice(HOSTILE)
    if isinstance(value, list):
        at = rng.randrange(len(value))
        return [*value[:at], mutated_json(rng, value[at]), *value[at + 1 :]]
    name = rng.choice(list(value))
    changed = dict(value)
    step = rng.random()
    if step < 0.1:
        del changed[name]
    elif step < 0.2:
        changed[f"{name}{rng.choice(['', '_', 's'])}x"] = changed.pop(name)
    else:
        changed[name] = mutated_json(rng, value[name])
    return changed


def mutated_bytes(rng: random.Random, content: bytes) -> bytes:
    """The content with some bytes changed, removed, doubled or put in."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del changed[at : at + rng.randrange(1, 20)]
            case 2:
                changed[at:at] = changed[at : at + rng.randrange(1, 40)]
            case 3:
                changed[at:at] = rng.choice(
                    (b'"', b"{", b"[", b"]", b"}", b",", b"\\u", b"\0", b"\xff\xfe", b"1e999", b"-")
                )
            case _:
                del changed[at:]
    return bytes(changed)


def mutated(rng: random.Random, seeds: list[bytes]) -> bytes:
    """One of the seeds with its JSON or its bytes changed."""
    content = rng.choice(seeds)
    if rng.random() < 0.5:
        return mutated_bytes(rng, content)
    changed = mutated_json(rng, json.loads(content))
    return json.dumps(changed).encode("utf-8", "surrogatepass")


def corpus_target(_folder: Path) -> tuple[list[bytes], Callable[[bytes], object], bool]:
    """Lines of the corpora; the case is decoded and, where it is small, its bits are made."""
    lines = [line for f in sorted(builtin_root().rglob("*.jsonl")) for line in f.read_bytes().splitlines()[:4]]

    def read(content: bytes) -> None:
        case = decode_case(content)
        rows, columns = case.shape
        if rows * columns <= MOST_ELEMENTS and case.layout.extent(rows, columns) <= MOST_ELEMENTS:
            check_contents(case)

    return lines, read, True


def result_target(_folder: Path) -> tuple[list[bytes], Callable[[bytes], object], bool]:
    """A report cut to what every field needs; what is read is drawn too."""
    whole = json.loads((Path(__file__).parents[1] / "results" / "h200" / "float16.json").read_bytes())
    with_findings = [v for v in whole["variants"] if v["findings"]][:1]
    for result in with_findings:
        result["findings"] = result["findings"][:2]
        result |= {"probes_run": {"empties": 10}, "properties": {"batch_invariant": True}}
    small = {**whole, "variants": [*whole["variants"][1:2], *with_findings], "cases": whole["cases"][:2]}

    def read(content: bytes) -> None:
        report = json_format.parse(content)
        for name in ("table", "markdown", "json"):
            formats.render(report, name)

    return [json.dumps(small).encode()], read, True


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    variant: str
    versions: dict[str, str]


class _Entry(msgspec.Struct, frozen=True):
    case: str
    value: float
    bits: tuple[str, ...]


def journal_target(folder: Path) -> tuple[list[bytes], Callable[[bytes], object], bool]:
    """A journal of a few records, opened as ``--resume`` opens one."""
    path = folder / "journal"
    head = _Head("one_block", {"torch": "2"})

    def open_it() -> Journal[_Head, _Entry]:
        return Journal(path, head, _Entry, resume=True, refusal=lambda found, now: None if found == now else "other")

    journal = open_it()
    for number in range(4):
        journal.add(_Entry(f"family/{number}/float16", number / 3, ("3c00",) * number))
    journal.close()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        open_it().close()

    return [path.read_bytes()], read, False


def variant_target(folder: Path) -> tuple[list[bytes], Callable[[bytes], object], bool]:
    """Arguments of --variant: names, files and modules, none of which is imported."""
    file = folder / "kernels.py"
    file.write_text("def f(x): return x\n")
    specs = [*known_names(), f"{file}:f", "torch.nn.functional:softmax", "kernels.py:softmax", "package.module:f"]
    return [spec.encode() for spec in specs], lambda content: resolve(content.decode(errors="surrogateescape")), False


TARGETS = {
    "corpus": corpus_target,
    "result": result_target,
    "journal": journal_target,
    "variant": variant_target,
}


def fuzz(name: str, inputs: int, seed: int, folder: Path) -> Score:
    """Feeds one target so many inputs; the same seed makes the same inputs."""
    seeds, read, is_json = TARGETS[name](folder)
    rng = random.Random(f"{name} {seed}")
    score = Score()
    for _ in range(inputs):
        content = mutated(rng, seeds) if is_json else mutated_bytes(rng, rng.choice(seeds))
        score.inputs += 1
        try:
            read(content)
        except SoftcheckError:
            score.refused += 1
        except Exception as error:  # noqa: BLE001 - exactly what is looked for
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__} at {frame.filename}:{frame.lineno}"
            score.faults.setdefault(place, f"{''.join(traceback.format_exception(error))}input {content[:2000]!r}")
    return score


def main() -> int:
    """Fuzzes the chosen targets, the inputs shared out evenly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=list(TARGETS), action="append")
    asked = parser.parse_args()
    targets = asked.target or list(TARGETS)
    faults = 0
    for name in targets:
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            score = fuzz(name, -(-asked.inputs // len(targets)), asked.seed, Path(folder))
        seconds = time.perf_counter() - begun
        rate = score.inputs / seconds
        print(f"{name}: {score.inputs:,} inputs, {rate:,.0f}/s, {score.refused:,} refused, {len(score.faults)} faults")
        for place, said in score.faults.items():
            print(f"--- {place}\n{said}", file=sys.stderr)
        faults += len(score.faults)
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
