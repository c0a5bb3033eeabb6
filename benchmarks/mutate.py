"""Mutation testing: right variants with one small change each, and how many of the mutants the default check kills.

    python benchmarks/mutate.py --output FOLDER [--device auto] [--parallel N] [--limit N] [--seed S] [--seconds S]
                                [--dtypes NAME ...] [--only SOURCE ...] [--again FILE | --names NAME ...]
                                [--probes together|apart|all] [--list] [--no-peers]
                                [--gpus all|0,2]

Mutants go to FOLDER/mutants, a file each, and mutants.json lists them. Every mutant gets a worker of its own and a check
whose steps come cheapest first: a case of each family, the probes' most telling trials, the other cases, the probes whole.
It ends at the first finding. Findings that the original's declaration explains do not count; an original in which anything
is found has its mutants left out, and is named. ``--limit`` draws as many mutants by ``--seed``; ``--list`` only writes them.
``--again`` runs those that an earlier score.json lists as not killed, and takes the others' fates from there; ``--names`` runs these
alone, without their originals, and ``--probes apart`` none of the cases and probes that can share the device.

``--gpus`` spreads mutants over several GPUs, ``--parallel`` of them at once over all its devices.

Probes that need the device to themselves run on the survivors, one at a time on each device. The score goes to score.json and score.md,
with the survivors as differences: a person has to tell those that compute the same from those that got away. Beside it stand
the judges that others use. Exits 1 where nothing was killed or an original was accused.
"""
# ruff: noqa: INP001 - a script, not a package

import argparse
import concurrent.futures
import contextlib
import json
import os
import queue
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from default_check import APART, TOGETHER, Shown, refusals_without_limit, run_cases, run_probes
from mutants import Mutant, mutants, write
from peer_judges import JUDGES, judge_all

from softcheck.cases.case import Case
from softcheck.cases.corpus import builtin_names, load
from softcheck.cluster.local import LocalDevices, on_gpus
from softcheck.errors import SoftcheckError
from softcheck.run.session import CaseMeasurement, Session

from planted import FOLDER as PLANTED  # isort: skip - peer_judges puts its folder on the path
from planted import Planted  # isort: skip

ROOT = Path(__file__).resolve().parents[1]
BUILTIN = {
    "multi_row": "multi_row",
    "online": "online",
    "persistent": "persistent",
    "exp2_prescaled": "exp2_prescaled",
}
"""Built-in modules without known defects, and their variants."""
EXAMPLES = ("declared", "tutorial_softmax")
CONTROLS = (
    "split_columns",
    "workspace_kept",
    "online_per_lane",
    "sums_from_the_end",
    "strides_of_the_input_kept",
    "atomic_maximum",
    "rows_along_the_second_axis",
    "two_rows_per_program",
    "thresholds_right_on_both_sides",
    "plans_keyed_by_all",
    "specials_answered_apart",
    "gradient_by_hand",
    "peeled_to_alignment",
    "column_major_has_its_kernel",
)
SMALL = 1 << 14
"""Elements of a case that is tried first."""

State = Literal["killed", "survived", "cut off", "failed to import"]


@dataclass(slots=True)
class Fate:
    """The answer of the check to one mutant, or to an original."""

    name: str
    source: str
    state: State = "survived"
    by: str = ""
    """The case or trial that killed it, and the kind of finding."""
    seconds: float = 0.0


def sources() -> dict[str, tuple[Path, str]]:
    """The file and the function of every original, by name."""
    found = {name: (ROOT / "softcheck/variants/builtin" / f"{name}.py", function) for name, function in BUILTIN.items()}
    found |= {name: (ROOT / "examples" / f"{name}.py", "softmax") for name in EXAMPLES}
    controls = {path.stem: path for path in PLANTED.rglob("controls/*.py")}
    return found | {name: (controls[name], "softmax") for name in CONTROLS}


def make(folder: Path, only: list[str]) -> dict[str, list[Mutant]]:
    """Writes the originals and all their mutants into a folder, and returns the mutants by source."""
    made = {}
    for name, (path, function) in sources().items():
        if only and name not in only:
            continue
        text = path.read_text(encoding="utf-8")
        made[name] = mutants(text, function, name)
        alias = f"\n\nsoftmax = {function}\n" if function != "softmax" else ""
        write(folder, made[name])
        (folder / f"{name}.py").write_text(text + alias, encoding="utf-8")
    return made


def cheapest_first(cases: list[Case]) -> list[list[Case]]:
    """The cases in two lists: of each family and dtype the largest small one, and the rest by their elements."""
    first: dict[tuple[str, str], Case] = {}
    for case in sorted(cases, key=_elements):
        if 0 < _elements(case) <= SMALL:
            first[case.family, case.dtype] = case
    chosen = {case.id for case in first.values()}
    return [list(first.values()), sorted((case for case in cases if case.id not in chosen), key=_elements)]


def _elements(case: Case) -> int:
    return case.shape[0] * case.shape[1]


class _Trial:
    """The check of one mutant, or of an original."""

    def __init__(self, fate: Fate, file: Path, options: argparse.Namespace) -> None:
        self.fate, self.spec, self.options = fate, f"{file}:softmax", options
        self.dtypes = _declared(file, options.dtypes)

    def run(self, cases: list[Case], probes: tuple[str, ...]) -> None:
        """Makes the check's steps until one finds something; a check that itself fails counts as cut off."""
        begun = time.monotonic()
        devices = self.options.places.get()
        session = None
        try:
            session = Session(self.options.device, jobs=1, seconds_per_call=self.options.seconds, devices=devices)
            for shown in self._steps(session, cases, probes):
                if shown:
                    self.fate.state = "killed"
                    self.fate.by = f"{shown[0].where}: {shown[0].violation.kind}"
                    return
                if time.monotonic() - begun > self.options.seconds:
                    self.fate.state = "cut off"
                    return
        except SoftcheckError as error:
            self.fate.state, self.fate.by = "cut off", str(error)
        finally:
            if session is not None:
                session.close()
            self.options.places.put(devices)
            self.fate.seconds += time.monotonic() - begun

    def _steps(self, session: Session, cases: list[Case], probes: tuple[str, ...]) -> Iterator[list[Shown]]:
        declaration = session.load(self.spec, self.dtypes)
        if isinstance(declaration, str):
            self.fate.state, self.fate.by = "failed to import", declaration
            return
        dtypes = [name for name in self.dtypes if name in declaration.dtypes]
        results: list[CaseMeasurement] = []
        first, rest = cheapest_first(cases)
        given = (session, self.spec)
        steps = [
            run_cases(*given, declaration, first, dtypes, results, in_order=True),
            run_probes(*given, dtypes, probes, effort="quick"),
            run_cases(*given, declaration, rest, dtypes, results, in_order=True),
            iter([None]),
            run_probes(*given, dtypes, probes),
        ]
        for part in steps:
            for found in part:
                # Sizes that are refused make a finding only where no limit explains them, which all cases show together.
                shown = refusals_without_limit(results, dtypes) if found is None else found
                yield [
                    one
                    for one in shown
                    if (found is None or one.violation.refusal is None)
                    and declaration.explanation(one.violation, one.where, one.dtype, session.ready.backend) is None
                ]


def run_all(fates: list[Fate], folder: Path, options: argparse.Namespace) -> None:
    """Runs the check of every mutant or original, without the probes that need the device to themselves."""
    cases = [case for case in load(builtin_names()) if case.dtype in options.dtypes]
    lock, done = threading.Lock(), Counter[str]()

    def one(fate: Fate) -> None:
        _Trial(fate, folder / f"{fate.name}.py", options).run(cases, TOGETHER)
        with lock:
            done[fate.state] += 1
            _say(f"{sum(done.values())}/{len(fates)} {fate.name}: {fate.state} after {fate.seconds:.1f} s {fate.by}")

    count = options.devices.places if options.devices else 1
    with (
        _places(options, -(-options.parallel // count)),
        concurrent.futures.ThreadPoolExecutor(options.parallel) as pool,
    ):
        list(pool.map(one, fates))


@contextlib.contextmanager
def _places(options: argparse.Namespace, each: int) -> Iterator[None]:
    """Has ``options.places`` hand out every device ``each`` times at once; None stands for this machine's."""
    cluster = options.devices
    options.places = queue.SimpleQueue()
    for _ in range(each):
        for place in range(cluster.places if cluster else 1):
            options.places.put(LocalDevices((cluster.visible[place],), 1) if cluster else None)
    yield


def run_apart(fates: list[Fate], folder: Path, options: argparse.Namespace) -> None:
    """Runs the probes that need the device to themselves on each survivor."""
    survivors = [fate for fate in fates if fate.state == "survived"]

    def one(fate: Fate) -> None:
        _Trial(fate, folder / f"{fate.name}.py", options).run([], APART)

    with (
        _places(options, 1),
        concurrent.futures.ThreadPoolExecutor(options.devices.places if options.devices else 1) as pool,
    ):
        list(pool.map(one, survivors))


def run_probes_of(
    fates: list[Fate], folder: Path, options: argparse.Namespace, between: Callable[[], object] = lambda: None
) -> None:
    """Runs what ``--probes`` asks for; ``between`` the two parts whatever is given."""
    if options.probes != "apart":
        run_all(fates, folder, options)
        between()
    if options.probes != "together":
        run_apart(fates, folder, options)


def judged_by_peers(fates: list[Fate], folder: Path, options: argparse.Namespace) -> dict[str, int]:
    """Number of mutants or originals that each judge that others use refuses."""
    planted = [
        Planted(
            path=folder / f"{fate.name}.py",
            summary="",
            reports="",
            expected=frozenset(),
            shown_by=(),
            dtypes=_declared(folder / f"{fate.name}.py", options.dtypes),
            backends=("interpreter", "cuda"),
        )
        for fate in fates
    ]
    verdicts = judge_all(planted, options.device, options.parallel)
    return {judge: sum(not verdict[judge] for verdict in verdicts.values()) for judge in JUDGES}


def _drawn(made: dict[str, list[Mutant]], accused: set[str], options: argparse.Namespace) -> list[Fate]:
    """The mutants to run, or those of an earlier score with the fates of the killed ones."""
    if options.again is not None:
        known = [Fate(**fate) for fate in json.loads(options.again.read_text(encoding="utf-8"))["fates"]]
        return [fate if fate.state == "killed" else Fate(fate.name, fate.source) for fate in known]
    pairs = [(one.name, name) for name, found in made.items() if name not in accused for one in found]
    if options.names:
        unknown = sorted(set(options.names) - {name for name, _ in pairs})
        if unknown:
            raise SystemExit(f"no mutants {', '.join(unknown)}; --list writes all names")
        pairs = [pair for pair in pairs if pair[0] in options.names]
    if options.limit is not None and options.limit < len(pairs):
        drawn = random.Random(options.seed).sample(range(len(pairs)), options.limit)  # noqa: S311 - no secret
        pairs = [pairs[index] for index in sorted(drawn)]
    return [Fate(name, source) for name, source in pairs]


def _declared(path: Path, dtypes: list[str]) -> tuple[str, ...]:
    """Dtypes that a control's file names, of those that are asked for; all of them where it names none."""
    text = path.read_text(encoding="utf-8")
    line = next((line for line in text.splitlines() if line.startswith("DTYPES = ")), "")
    return tuple(name for name in dtypes if name in line) or tuple(dtypes)


def markdown(
    fates: list[Fate], accused: list[Fate], peers: dict[str, tuple[int, int]], originals: int, diffs: dict[str, str]
) -> str:
    """The score, by source and by what killed first, and the survivors as differences."""
    counted = [fate for fate in fates if fate.state != "failed to import"]
    killed = [fate for fate in counted if fate.state == "killed"]
    share = f"{100 * len(killed) / len(counted):.1f} %" if counted else "none"
    lines = [f"# Mutants: {len(killed)} of {len(counted)} killed ({share})", ""]
    lines += [f"{len(fates) - len(counted)} failed to import and are not counted.", ""]
    lines += [f"Left out, for a finding on the original: {fate.name} ({fate.by})." for fate in accused]
    lines += ["", "| source | mutants | killed | survived | cut off |", "|---|---|---|---|---|"]
    for source in dict.fromkeys(fate.source for fate in counted):
        states = Counter(fate.state for fate in counted if fate.source == source)
        of_state = " | ".join(str(states[state]) for state in ("killed", "survived", "cut off"))
        lines.append(f"| {source} | {states.total()} | {of_state} |")
    lines += ["", "| killed first by | mutants |", "|---|---|"]
    lines += [f"| {by} | {count} |" for by, count in Counter(_by(fate) for fate in killed).most_common()]
    if peers:
        lines += ["", "| judge | mutants refused | originals refused |", "|---|---|---|"]
        for judge, (mutated, right) in peers.items():
            lines.append(f"| {judge} | {mutated} of {len(counted)} | {right} of {originals} |")
    lines += ["", "## Survivors", ""]
    for fate in counted:
        if fate.state != "killed":
            lines += [f"{fate.name}: {fate.state} {fate.by}", "", "```diff", diffs[fate.name].rstrip("\n"), "```", ""]
    return "\n".join(lines) + "\n"


def _change(diff: str) -> dict[str, str]:
    """The lines of a difference as they were and as they are."""
    lines = diff.splitlines()[2:]
    texts = {"before": "-", "after": "+"}
    return {key: "\n".join(line[1:] for line in lines if line.startswith(sign)) for key, sign in texts.items()}


def _by(fate: Fate) -> str:
    """The probe, or the family of the case, that killed a mutant."""
    parts = fate.by.split("/")
    return "/".join(parts[:2]) if parts[0] == "probe" else parts[0]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("auto", "cuda", "interpreter"), default="auto")
    parser.add_argument("--parallel", type=int, default=max(1, min(12, (os.cpu_count() or 2) // 2)))
    parser.add_argument("--limit", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of each mutant's check")
    parser.add_argument("--dtypes", nargs="*", default=["float16", "float32"])
    parser.add_argument("--only", nargs="*", default=[], choices=sorted(sources()), metavar="SOURCE")
    parser.add_argument("--again", type=Path, metavar="FILE", help="a score.json whose survivors are to run again")
    parser.add_argument("--names", nargs="*", default=[], metavar="MUTANT", help="mutants to run, without originals")
    parser.add_argument("--probes", choices=("together", "apart", "all"), default="all")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--gpus", metavar="all|0,2", help="spread the mutants over these GPUs")
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args()


def main() -> int:
    """Make mutants, run them, print and save."""
    options = _options()
    options.devices = None
    if options.gpus is not None:
        options.device, options.devices = "cuda", on_gpus(options.gpus, options.parallel)
    return _run(options)


def _run(options: argparse.Namespace) -> int:
    if not options.list:
        session = Session(options.device, jobs=1, devices=options.devices)
        options.device = session.ready.backend
        session.close()
    folder = options.output / "mutants"
    made = make(folder, options.only)
    rows = [
        {"source": name, "name": one.name, "operator": one.operator, "line": one.line} | _change(one.diff)
        for name, found in made.items()
        for one in found
    ]
    (options.output / "mutants.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    _say(f"{len(rows)} mutants of {len(made)} sources in {folder}")
    if options.list:
        return 0
    originals = [] if options.names else [Fate(name, name) for name in made]
    run_probes_of(originals, folder, options)
    accused = [fate for fate in originals if fate.state not in {"survived", "cut off"}]
    fates = _drawn(made, {fate.name for fate in accused}, options)
    diffs = {one.name: one.diff for found in made.values() for one in found}

    def save(peers: dict[str, tuple[int, int]]) -> str:
        """Writes the score anew after each part, so that a run which is cut off leaves what it has."""
        text = markdown(fates, accused, peers, len(originals), diffs)
        (options.output / "score.md").write_text(text, encoding="utf-8")
        content = {
            "fates": [asdict(fate) for fate in fates],
            "accused": [asdict(fate) for fate in accused],
            "peers": peers,
        }
        (options.output / "score.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return text

    left = [fate for fate in fates if fate.state != "killed"]
    run_probes_of(left, folder, options, lambda: save({}))
    text = save({})
    if not options.no_peers:
        counted = [fate for fate in fates if fate.state != "failed to import"]
        refused = [judged_by_peers(group, folder, options) for group in (counted, originals)]
        text = save({judge: (refused[0][judge], refused[1][judge]) for judge in JUDGES})
    _say(text)
    return 0 if not accused and any(fate.state == "killed" for fate in fates) else 1


if __name__ == "__main__":
    sys.exit(main())
