"""Feeds mutated files and arguments to everything that reads a stranger's: only a message may come of it.

    python benchmarks/fuzz.py [--inputs 1000000] [--seed 0] [--target corpus]

Targets: ``corpus`` (a line of a corpus, and the bits that it describes), ``result`` (a saved report, and its drawing),
``comparison`` (two saved results of report or bench), ``journal`` (what ``--resume`` reads), ``array`` (.npy and
.safetensors), ``config`` (pyproject.toml), ``variant`` (an argument of --variant). Inputs are real ones with bytes changed,
or with a value of what they hold replaced by a hostile one. The inputs are shared out by what a target's readers take.
Prints inputs per second, how many were refused, and every other exception once; exits 1 if any.
"""
# ruff: noqa: INP001, T201, S311 - a script, not a package; it prints; its random numbers are no secrets

import argparse
import contextlib
import importlib.metadata
import io
import json
import random
import struct
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import click
import msgspec
import numpy as np

from softcheck.cases.case import check_contents
from softcheck.cases.corpus import builtin_root, decode_case
from softcheck.cases.importing import read_array
from softcheck.cli import report as report_command
from softcheck.contract import FindingKind, Violation
from softcheck.errors import SoftcheckError
from softcheck.judge.measurement import unmeasured
from softcheck.probes.outcome import Outcome
from softcheck.report import compare, formats, json_format
from softcheck.run.journal import RunHeader, read_header
from softcheck.run.protocol import ProbeTask, Ready
from softcheck.run.record import Keeping, Kept, Record
from softcheck.run.session import CaseMeasurement
from softcheck.variants.registry import known_names, resolve

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e308, 5e-324),
    *("", " ", "\0", "\x1b[2J", "..", "/", "nan", "inf", "-inf", "float16", "\ud800", "e" * 5000, "%s{0}", "名"),
    *([], {}, [[]], [None], {"": None}, [0] * 300, [[[[[[[[]]]]]]]]),
)
MOST_ELEMENTS = 2**12
"""Bits of larger cases are not made: their size is checked where they are run."""
RESULTS = Path(__file__).parents[1] / "results" / "h200"

Mutate = Callable[[random.Random, bytes], bytes]


@dataclass(frozen=True, slots=True)
class Target:
    """Something that reads a stranger's input, and real inputs to begin with."""

    seeds: Sequence[bytes]
    read: Callable[[bytes], object]
    mutate: Mutate


@dataclass
class Score:
    """Results of a target's inputs."""

    inputs: int = 0
    refused: int = 0
    faults: dict[str, str] = field(default_factory=dict)
    """Traceback and input by the place that raised."""


def mutated_value(rng: random.Random, value: Any) -> Any:
    """The value with one leaf or branch replaced, removed or renamed."""
    if rng.random() < 0.15 or not isinstance(value, dict | list) or not value:
        return rng.choice(HOSTILE)
    if isinstance(value, list):
        at = rng.randrange(len(value))
        return [*value[:at], mutated_value(rng, value[at]), *value[at + 1 :]]
    name = rng.choice(list(value))
    changed = dict(value)
    step = rng.random()
    if step < 0.1:
        del changed[name]
    elif step < 0.2:
        changed[f"{name}{rng.choice(['', '_', 's'])}x"] = changed.pop(name)
    else:
        changed[name] = mutated_value(rng, value[name])
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


def mutated_json(rng: random.Random, content: bytes) -> bytes:
    """A JSON text with a value or some bytes changed."""
    if rng.random() < 0.5:
        return mutated_bytes(rng, content)
    return json.dumps(mutated_value(rng, json.loads(content))).encode("utf-8", "surrogatepass")


def corpus_target(_folder: Path) -> Target:
    """Lines of the corpora; the case is decoded and, where it is small, its bits are made."""
    lines = [line for f in sorted(builtin_root().rglob("*.jsonl")) for line in f.read_bytes().splitlines()[:4]]

    def read(content: bytes) -> None:
        case = decode_case(content)
        rows, columns = case.shape
        if rows * columns <= MOST_ELEMENTS and case.layout.extent(rows, columns) <= MOST_ELEMENTS:
            check_contents(case)

    return Target(lines, read, mutated_json)


def _small_report() -> bytes:
    """A report cut to what every field needs."""
    whole = json.loads((RESULTS / "float16.json").read_bytes())
    with_findings = [v for v in whole["variants"] if v["findings"]][:1]
    for result in with_findings:
        result["findings"] = result["findings"][:2]
        result |= {"probes_run": {"empties": 10}, "properties": {"batch_invariant": True}}
        result |= {"place": {"file": "kernels/softmax.py", "line": 7}}
    small = {**whole, "variants": [*whole["variants"][1:2], *with_findings], "cases": whole["cases"][:2]}
    return json.dumps(small).encode()


def _small_speeds() -> bytes:
    whole = json.loads((RESULTS / "speed" / "vocabulary.json").read_bytes())
    return json.dumps({**whole, "shapes": whole["shapes"][:1]}).encode()


def result_target(_folder: Path) -> Target:
    """A report, drawn in every format."""

    def read(content: bytes) -> None:
        report = json_format.parse(content)
        for name in formats.FORMATS:
            formats.render(report, name)

    return Target([_small_report()], read, mutated_json)


def comparison_target(folder: Path) -> Target:
    """A saved result of either kind, compared with the one that it comes from, both ways round."""
    reports, speeds, path = _small_report(), _small_speeds(), folder / "result.json"
    kept = []
    for content in (reports, speeds):
        path.write_bytes(content)
        kept.append(json_format.load_any(path))

    def read(content: bytes) -> None:
        path.write_bytes(content)
        found = json_format.load_any(path)
        for other in kept:
            for pair in ((other, found), (found, other)):
                comparison = compare.compare(*pair, compare.Tolerances())
                for name in formats.COMPARISON_FORMATS:
                    formats.render(comparison, name)

    return Target([reports, speeds], read, mutated_json)


_MAGIC = b"softcheck journal 1\n"
_FRAME = struct.Struct(">II")


def _records(content: bytes) -> Iterator[bytes]:
    at = len(_MAGIC)
    while at < len(content):
        length, _ = _FRAME.unpack_from(content, at)
        yield content[at + _FRAME.size : at + _FRAME.size + length]
        at += _FRAME.size + length


def mutated_journal(rng: random.Random, content: bytes) -> bytes:
    """A journal with some bytes changed, or with a value of one record changed and the checksum right."""
    if rng.random() < 0.3:
        return mutated_bytes(rng, content)
    records = list(_records(content))
    # The header decides most.
    at = rng.choice((0, rng.randrange(len(records))))
    try:
        records[at] = msgspec.msgpack.encode(mutated_value(rng, msgspec.msgpack.decode(records[at])))
    except (OverflowError, UnicodeEncodeError):
        # MessagePack holds no larger integers, and no lone surrogates.
        records[at] = mutated_bytes(rng, records[at])
    return _MAGIC + b"".join(_FRAME.pack(len(r), zlib.crc32(r)) + r for r in records)


def journal_target(folder: Path) -> Target:
    """A journal of a report, taken up as ``softcheck report --resume`` does before it starts a worker."""
    path = folder / "journal"
    case = decode_case(next(builtin_root().rglob("*.jsonl")).read_bytes().splitlines()[0])
    asked = dict(  # noqa: C408 - the options by name
        variants=["one_block"],
        dtypes=[case.dtype],
        cases=case.digest,
        whole_corpus=False,
        probes=["empties"],
        effort="normal",
        seed=0,
        generate=0,
        exhaustive=False,
        speed=True,
        seconds_per_call=120.0,
    )
    ready = Ready(backend="interpreter", device="CPU", torch="2", triton="3", python="3", driver=None)
    settings = {"variant": ["one_block"], "dtype": [case.dtype], "seed": 0, "quick": False, "time_limit": 120.0}
    header = RunHeader(softcheck="0", ready=ready, asked=asked, sources={"softcheck": "0"}, settings=settings)
    violation = Violation(FindingKind.CRASH, "ended", row=0, column=1, input_bits="3c00", share=1.5)
    first = Record(Keeping(path=path), header, (case,))
    first.add_result(CaseMeasurement("one_block", case, unmeasured(case.shape, (violation,)), 0.5))
    task = ProbeTask(variant="one_block", dtype=case.dtype, probe="empties")
    for index in range(3):
        first.add(Kept(outcome=(task, index, Outcome(violations=(violation,), fatal=index == 1))))
    first.close(is_complete=False)

    def read(content: bytes) -> None:
        path.write_bytes(content)
        read_header(path, RunHeader)
        report_command.report_command.make_context("report", ["--resume", str(path)])
        Record(Keeping(path=path, resume=True), header, (case,)).close(is_complete=False)

    return Target([path.read_bytes()], read, mutated_journal)


def array_target(folder: Path) -> Target:
    """Files of one array, as ``softcheck corpus add`` reads them; the first byte says which kind."""
    seeds = []
    for dtype in (np.float16, np.float32, ">f4", np.uint16):
        stream = io.BytesIO()
        np.save(stream, np.arange(12).astype(dtype).reshape(3, 4))
        seeds.append(b"n" + stream.getvalue())
    head = json.dumps({"x": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, "__metadata__": {"a": "b"}})
    seeds.append(b"s" + struct.pack("<Q", len(head)) + head.encode() + bytes(12))

    def mutate(rng: random.Random, content: bytes) -> bytes:
        if content[:1] == b"s" and rng.random() < 0.6:
            changed = json.dumps(mutated_value(rng, json.loads(content[9 : 9 + len(head)]))).encode()
            return b"s" + struct.pack("<Q", len(changed)) + changed + bytes(12)
        return content[:1] + mutated_bytes(rng, content[1:])

    def read(content: bytes) -> None:
        path = folder / f"array{'.safetensors' if content[:1] == b's' else '.npy'}"
        path.write_bytes(content[1:])
        read_array(path, dtype=None if len(content) % 2 else "bfloat16")

    return Target(seeds, read, mutate)


def config_target(folder: Path) -> Target:
    """``[tool.softcheck]`` in a project's pyproject.toml, as every report reads it."""
    text = """[project]
name = "x"
[tool.softcheck]
variant = ["one_block", "torch"]
dtype = "float16"
seed = 3
time-limit = 60.5
quick = true
device = "interpreter"
"""
    values = ("nan", "-1", "1e400", '""', "[]", "{}", "[1]", '"float61"', "2024-01-01", "true", '"\\u0000"', "[[1]]")

    def mutate(rng: random.Random, content: bytes) -> bytes:
        if rng.random() < 0.5:
            return mutated_bytes(rng, content)
        lines = content.decode().splitlines()
        at = rng.randrange(3, len(lines))
        lines[at] = f"{lines[at].partition('=')[0]}= {rng.choice(values)}"
        return "\n".join(lines).encode()

    def read(content: bytes) -> None:
        (folder / "pyproject.toml").write_bytes(content)
        report_command.report_command.make_context("report", [])

    return Target([text.encode()], read, mutate)


def variant_target(folder: Path) -> Target:
    """Arguments of --variant: names, files and modules, none of which is imported."""
    file = folder / "kernels.py"
    file.write_text("def f(x): return x\n")
    specs = [*known_names(), f"{file}:f", "torch.nn.functional:softmax", "kernels.py:softmax", "package.module:f"]
    return Target(
        [spec.encode() for spec in specs],
        lambda content: resolve(content.decode(errors="surrogateescape")),
        mutated_bytes,
    )


TARGETS: dict[str, tuple[Callable[[Path], Target], float]] = {
    "corpus": (corpus_target, 0.5),
    "result": (result_target, 0.1),
    "comparison": (comparison_target, 0.05),
    "journal": (journal_target, 0.1),
    "array": (array_target, 0.1),
    "config": (config_target, 0.05),
    "variant": (variant_target, 0.1),
}
"""Each with its share of the inputs."""


def fuzz(name: str, inputs: int, seed: int, folder: Path) -> Score:
    """Feeds one target so many inputs; the same seed makes the same inputs."""
    rng = random.Random(f"{name} {seed}")
    score = Score()
    # Listing what is installed opens hundreds of files, the same ones each time.
    offered = importlib.metadata.entry_points(group="softcheck.variants")
    with contextlib.chdir(folder), mock.patch.object(importlib.metadata, "entry_points", return_value=offered):
        target = TARGETS[name][0](folder)
        for _ in range(inputs):
            content = target.mutate(rng, rng.choice(target.seeds))
            score.inputs += 1
            try:
                target.read(content)
            except (SoftcheckError, click.ClickException):
                # Both end a command with a message.
                score.refused += 1
            except Exception as error:  # noqa: BLE001 - exactly what is looked for
                frame = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{type(error).__name__} at {frame.filename}:{frame.lineno}"
                score.faults.setdefault(place, f"{''.join(traceback.format_exception(error))}input {content[:2000]!r}")
    return score


def main() -> int:
    """Fuzzes the chosen targets and prints what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=list(TARGETS), action="append")
    asked = parser.parse_args()
    targets = asked.target or list(TARGETS)
    shares = sum(TARGETS[name][1] for name in targets)
    # In memory where that is possible: opening a file takes longer than reading it.
    memory = next((folder for folder in ("/dev/shm",) if Path(folder).is_dir()), None)  # noqa: S108 - unused otherwise
    fed = faults = 0
    for name in targets:
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            score = fuzz(name, round(asked.inputs * TARGETS[name][1] / shares), asked.seed, Path(folder))
        seconds = time.perf_counter() - begun
        rate = score.inputs / seconds
        print(
            f"{name}: {score.inputs:,} inputs, {rate:,.0f}/s, {score.refused:,} refused, {len(score.faults)} faults",
            flush=True,
        )
        for place, said in score.faults.items():
            print(f"--- {place}\n{said}", file=sys.stderr)
        fed, faults = fed + score.inputs, faults + len(score.faults)
    print(f"in all: {fed:,} inputs, {faults} faults")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
