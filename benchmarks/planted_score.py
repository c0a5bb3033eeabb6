"""The score on the planted kernels: the whole default check on every one, and the judges that others use beside it.

    python benchmarks/planted_score.py [--device auto] [--parallel N] [--whole] [--only NAME ...] [--seconds S]
                                       [--no-peers] [--stages] [--folder FOLDER ...] [--every] [--wrong | --right]
                                       [--shown-first] [--one-dtype]
                                       [--output FOLDER]

Every kernel gets a worker process of its own and runs the built-in corpora, largest cases first, and then every probe, as
``softcheck report`` does. A wrong kernel is caught by the first finding of a kind that its file expects, and its check ends
there unless ``--whole`` is given (the first finding of any kind, which may come earlier, is timed too); a right one is accused
by any finding and runs to the end. Probes that need the device to themselves run last, one kernel at a time, on the right
kernels and on the wrong ones not caught by then. ``--seconds`` limits each kernel's check; one that was cut off says so.
``--shown-first`` begins with the probes that show the fault by the kernel's file, and ``--one-dtype`` checks a kernel in one of
its dtypes, another one for each. The files are written anew after every kernel, so that a run that is ended early leaves what
it has. Kernels that can't show their bug on this device are left out, and counted. ``--stages`` tells which stages catch a
wrong kernel: the cases or, where no case does, each probe by its quick trials, and by all of its trials where no quick one
does; the table then says what only one probe catches. Exits 1 where a wrong kernel was not caught or a right one accused, and 2 for a name of no kernel.
"""
# ruff: noqa: INP001 - a script, not a package

import argparse
import concurrent.futures
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import msgspec
from default_check import APART, TOGETHER, Shown, limits, refusals_without_limit, run_cases, run_probes
from peer_judges import JUDGES, judge_all, summary

from softcheck.cases.case import Case
from softcheck.cases.corpus import builtin_names, load
from softcheck.contract import Violation
from softcheck.errors import SoftcheckError
from softcheck.run.protocol import Ready
from softcheck.run.session import CaseMeasurement, Session
from softcheck.variants.declaration import Backend, Declaration

from planted import FOLDER, FOLDERS, Planted, bugs, controls  # isort: skip - peer_judges puts its folder on the path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(slots=True)
class Score:
    """Findings on one kernel."""

    name: str
    bug: str
    expected: tuple[str, ...]
    dtypes: tuple[str, ...]
    refused_after: float | None = None
    """Seconds until the first finding of any kind, from the start of its check, with its worker's start and its import."""
    caught_after: float | None = None
    """The same until the first finding of a kind that is expected."""
    caught_by: str | None = None
    """Case or trial, and the kind."""
    found: dict[str, str] = field(default_factory=dict)
    """Each kind found, and the first case or trial that showed it, with its message."""
    cases: int = 0
    probes: int = 0
    seconds: float = 0.0
    cut_off: bool = False
    stages: tuple[str, ...] = ()
    """With ``--stages``: "cases" if a case shows an expected kind; else each probe that does."""
    is_checked: bool = False
    """True if the kernel's check came to its end."""
    error: str | None = None

    @property
    def is_right(self) -> bool:
        """True if the kernel is a control."""
        return not self.expected

    @property
    def is_done(self) -> bool:
        """True if there is nothing more to learn: a wrong kernel is caught."""
        return self.caught_after is not None

    @property
    def is_open(self) -> bool:
        """True if a check was cut off before it showed anything that counts."""
        return self.cut_off and not self.is_done and not (self.is_right and self.found)

    @property
    def is_good(self) -> bool:
        """Caught, or left alone to the end."""
        if self.error is not None or not self.is_checked:
            return False
        return not self.found and not self.cut_off if self.is_right else self.is_done


class _Check:
    """The check of one kernel."""

    def __init__(self, planted: Planted, score: Score, options: argparse.Namespace) -> None:
        self.planted, self.score, self.options = planted, score, options
        self.begun = time.monotonic()
        self.backend: Backend = "interpreter"
        self._declaration = Declaration()

    def run(self, cases: list[Case], probes: tuple[str, ...], given: Session | None = None) -> None:
        """Everything on the given session or one of its own; what goes wrong with the check itself is recorded."""
        session = given
        try:
            session = session or Session(self.options.device, jobs=1, seconds_per_call=self.options.seconds)
            self._run(session, cases, probes)
        except SoftcheckError as error:
            self.score.error = str(error)
        finally:
            if session is not None and given is None:
                session.close()
            self.score.seconds += time.monotonic() - self.begun

    def _run(self, session: Session, cases: list[Case], probes: tuple[str, ...]) -> None:
        spec = self.planted.spec
        self.backend = session.ready.backend
        declaration = session.load(spec, self.planted.dtypes)
        if isinstance(declaration, str):
            self.score.error = f"refused: {declaration}"
            return
        self._declaration = declaration
        results: list[CaseMeasurement] = []
        dtypes = self.planted.dtypes
        first: list[str] = []
        if self.options.shown_first:
            first = [probe for probe in probes if probe in self.planted.probes]
        if self._shows(session, first, dtypes):
            return
        for shown in run_cases(session, spec, declaration, cases, dtypes, results):
            self.score.cases += 1
            self._note(one for one in shown if one.violation.refusal is None or not self.score.is_right)
            if self._ends():
                break
        else:
            self._note(refusals_without_limit(results, dtypes) if self.score.is_right else limits(results, dtypes))
        if self.score.is_done and cases:
            self.score.stages = ("cases",)
        if self._ends():
            return
        if self.options.stages and not self.score.is_right:
            self._run_stages(session, probes)
            return
        self._shows(session, [probe for probe in probes if probe not in first], dtypes)

    def _shows(self, session: Session, probes: Iterable[str], dtypes: tuple[str, ...]) -> bool:
        """Runs these probes; True if that ends the check."""
        for shown in run_probes(session, self.planted.spec, dtypes, probes):
            self.score.probes += 1
            self._note(shown)
            if self._ends():
                return True
        return False

    def _run_stages(self, session: Session, probes: tuple[str, ...]) -> None:
        """Runs every probe by itself; by its quick trials, and by all if these show nothing in any probe."""
        for effort in ("quick", "normal"):
            for probe in probes:
                kinds = set()
                for shown in run_probes(session, self.planted.spec, self.planted.dtypes, (probe,), effort=effort):
                    self.score.probes += 1
                    self._note(shown)
                    kinds |= {str(one.violation.kind) for one in shown}
                if kinds & set(self.score.expected):
                    self.score.stages = (*self.score.stages, probe)
                if self._is_over():
                    return
            if self.score.stages:
                return

    def _note(self, found: Iterable[Shown]) -> None:
        for where, dtype, violation in found:
            explained = self._declaration.explanation(violation, where, dtype, self.backend) is not None
            if not (self.score.is_right and explained):
                self._keep(where, violation)

    def _keep(self, where: str, violation: Violation) -> None:
        kind = str(violation.kind)
        # Saved results name no folder of the machine.
        self.score.found.setdefault(kind, f"{where}: {violation.message}".replace(f"{ROOT}/", ""))
        now = self.score.seconds + time.monotonic() - self.begun
        if self.score.refused_after is None:
            self.score.refused_after = now
        if kind in self.score.expected and not self.score.is_done:
            self.score.caught_after = now
            self.score.caught_by = f"{where}: {kind}"

    def _ends(self) -> bool:
        if self.score.is_done and not self.options.whole:
            return True
        return self._is_over()

    def _is_over(self) -> bool:
        """True if the check has had its seconds; it stays cut off whatever is tried later."""
        self.score.cut_off |= time.monotonic() - self.begun > self.options.seconds
        return self.score.cut_off


def run_all(chosen: list[Planted], options: argparse.Namespace, save: Callable[[list[Score]], None]) -> list[Score]:
    """Every kernel's score, in the given order; ``save`` gets them all each time that one has changed."""
    cases = load(builtin_names())
    scores = [
        Score(one.name, one.summary, tuple(sorted(str(kind) for kind in one.expected)), one.dtypes) for one in chosen
    ]

    lock = threading.Lock()

    def together(pair: tuple[Planted, Score]) -> None:
        _Check(*pair, options).run(cases, TOGETHER)
        pair[1].is_checked = pair[1].is_done or not APART
        state = "caught" if pair[1].is_done else f"{len(pair[1].found)} kinds found so far"
        _say(f"{pair[1].name}: {state} after {pair[1].seconds:.1f} s")
        with lock:
            save(scores)

    with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
        list(pool.map(together, zip(chosen, scores, strict=True)))
    # One session for all: those that are left are right or wrong quietly, and starting takes longer than the probe.
    session = Session(options.device, jobs=1, seconds_per_call=options.seconds)
    try:
        for one, score in zip(chosen, scores, strict=True):
            if score.error is None and not score.is_done:
                _Check(one, score, options).run([], APART, session)
            score.is_checked = True
            save(scores)
    finally:
        session.close()
    return scores


def score_line(scores: list[Score]) -> str:
    """The score in one line."""
    checked = [score for score in scores if score.is_checked and not score.is_open]
    wrong = [score for score in checked if not score.is_right]
    right = [score for score in checked if score.is_right]
    caught, accused = sum(score.is_good for score in wrong), sum(not score.is_good for score in right)
    left = len(scores) - len(checked)
    unchecked = f"; {left} not checked to the end" if left else ""
    return f"{caught} of {len(wrong)} caught, {accused} of {len(right)} controls accused{unchecked}"


def _write(folder: Path, scores: list[Score], peers: dict[str, dict[str, bool]], ready: Ready, left_out: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"device": msgspec.to_builtins(ready), "scores": [asdict(score) for score in scores], "peers": peers}
    (folder / "planted.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (folder / "planted.md").write_text(markdown(scores, peers, ready, left_out), encoding="utf-8")


def markdown(scores: list[Score], peers: dict[str, dict[str, bool]], ready: Ready, left_out: int) -> str:
    """The whole table. ``left_out`` kernels can't show their bug on this device."""
    device = f"{ready.device}, torch {ready.torch}, Triton {ready.triton}"
    lines = [f"# Planted kernels: {score_line(scores)}", "", f"Device: {device}.", ""]
    if peers:
        lines += [summary(peers, {score.name for score in scores if not score.is_right}), ""]
    lines += ["| kernel | expected | caught by | first finding | caught | passed by |", "|---|---|---|---|---|---|"]
    for score in scores:
        expected = " or ".join(score.expected) or "nothing"
        first, caught = _after(score.refused_after), _after(score.caught_after)
        passed = ", ".join(judge for judge in JUDGES if peers.get(score.name, {}).get(judge)) or "-"
        by = score.caught_by or _verdict(score)
        lines.append(f"| {score.name} | {expected} | {by} | {first} | {caught} | {passed} |")
    lines += _stages(scores)
    bad = [score for score in scores if not score.is_good]
    if bad:
        lines += ["", "## Missed and accused", ""]
    for score in bad:
        lines.append(f"- {score.name}: {_verdict(score)}; {score.error or ''}")
        lines += [f"  - {kind}: {shown}" for kind, shown in score.found.items()]
    if left_out:
        lines += ["", f"{left_out} kernels can't show their bug on this device and were left out."]
    return "\n".join(lines) + "\n"


def _stages(scores: list[Score]) -> list[str]:
    """The wrong kernels that each stage catches, and those that no other does; nothing without ``--stages``."""
    caught = [score for score in scores if score.stages]
    if all(score.stages == ("cases",) for score in caught):
        return []
    found = [
        "",
        "## By stage",
        "",
        f"The cases catch {sum(score.stages == ('cases',) for score in caught)}. Of the others:",
        "",
    ]
    found += ["| probe | caught | by it alone | the latter |", "|---|---|---|---|"]
    for probe in (*TOGETHER, *APART):
        by_it = [score for score in caught if probe in score.stages]
        alone = [score.name for score in by_it if score.stages == (probe,)]
        found.append(f"| {probe} | {len(by_it)} | {len(alone)} | {', '.join(alone) or '-'} |")
    return found


def _after(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f} s"


def _verdict(score: Score) -> str:
    if score.error is not None or not score.is_checked:
        return "not checked"
    if score.is_right:
        return "accused" if score.found else "cut off" if score.cut_off else "left alone"
    return "caught" if score.is_done else "cut off" if score.cut_off else "missed"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("auto", "cuda", "interpreter"), default="auto")
    parser.add_argument("--parallel", type=int, default=max(1, min(12, (os.cpu_count() or 2) // 2)))
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("--folder", type=Path, nargs="+", default=[FOLDER], help="each holds bugs/ and controls/")
    parser.add_argument("--every", action="store_true", help="the kernels of every operation, and those of unseen/")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--wrong", action="store_true", help="wrong kernels alone")
    which.add_argument("--right", action="store_true", help="right kernels alone")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--shown-first", action="store_true")
    parser.add_argument("--one-dtype", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--output", type=Path)
    return parser.parse_args()


def main() -> int:
    """Run, print, save; 1 where the score is not full."""
    options = _options()
    session = Session(options.device, jobs=1)
    ready = session.ready
    session.close()
    planted = [
        one
        for folder in ([*FOLDERS, FOLDER / "unseen"] if options.every else options.folder)
        for one in (*(() if options.right else bugs(folder)), *(() if options.wrong else controls(folder)))
    ]
    if unknown := set(options.only or ()) - {one.name for one in planted}:
        _say(f"planted_score: no such kernel: {', '.join(sorted(unknown))}; expected names of files, without .py")
        return 2
    planted = [one for one in planted if not options.only or one.name in options.only]
    chosen = [one for one in planted if ready.backend in one.backends]
    left_out = len(planted) - len(chosen)
    if options.one_dtype:
        chosen = [replace(one, dtypes=(one.dtypes[i % len(one.dtypes)],)) for i, one in enumerate(chosen)]

    def save(scores: list[Score], peers: dict[str, dict[str, bool]] | None = None) -> None:
        if options.output is not None:
            _write(options.output, scores, peers or {}, ready, left_out)

    scores = run_all(chosen, options, save)
    device = "cuda" if ready.backend == "cuda" else "interpreter"
    peers = {} if options.no_peers else judge_all(chosen, device, options.parallel)
    save(scores, peers)
    _say(markdown(scores, peers, ready, left_out))
    return 0 if all(score.is_good for score in scores) else 1


if __name__ == "__main__":
    sys.exit(main())
