"""Probes in a report: their findings, trials and skipped trials, and declared defects that they can't find."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from softcheck.contract import Violation
from softcheck.operations.operation import Operation, value_in_words
from softcheck.probes.outcome import NOTHING_TO_TRY, KernelArithmetic
from softcheck.probes.registry import MEETINGS, PROBES, SLICES, described
from softcheck.report.findings import FindingSource
from softcheck.report.model import Finding
from softcheck.report.reproduce import bits_command
from softcheck.run.model import Run
from softcheck.run.probing import ProbeResult
from softcheck.run.protocol import ProbeTask
from softcheck.variants.declaration import KnownDefect

_PREFIX = "probe/"

_NUMBER = re.compile(r"\b\d+\b")


def findings(
    probed: Sequence[ProbeResult], source: FindingSource, is_limited: Callable[[Violation, str], bool]
) -> Iterator[Finding]:
    """Returns findings of the probes of one variant in one dtype, but for refusals of sizes beyond its limit."""
    for result in probed:
        task = result.task
        for shown in result.conclusion.findings:
            case_id = result.case_id(shown.label)
            if not is_limited(shown.violation, case_id):
                save = None if shown.witness is None else bits_command(task.variant, task.dtype, shown.witness)
                again = probe_command(task, source.backend, shown.label)
                yield source.finding(shown.violation, case_id, again, save=save)


def probe_command(task: ProbeTask, backend: str, label: str = "") -> str:
    """The command that runs one probe on one variant in one dtype again; of circumstances that meet, the call of this label alone."""
    words = ["softcheck", "report", "--variant", task.variant, "--dtype", task.dtype]
    is_way = task.probe in {MEETINGS, *SLICES} and "=" in label
    words += ["--axis", label] if is_way else ["--probe", task.probe]
    words += ["--effort", task.effort] if task.effort != "normal" and not is_way else []
    words += ["--seed", str(task.seed)] if task.seed else []
    return shlex.join([*words, "--device", backend])


def trials_of(probed: Iterable[ProbeResult]) -> dict[str, int]:
    """Trials made, by probe, in the order in which probes are registered."""
    made = {result.task.probe: result.conclusion.trials for result in probed}
    return {name: made[name] for name in described() if name in made}


def properties_of(probed: Iterable[ProbeResult]) -> dict[str, bool]:
    """Properties that probes looked for, and whether they hold."""
    found: dict[str, bool] = {}
    for result in probed:
        for name, holds in result.conclusion.properties.items():
            found[name] = found.get(name, True) and holds
    return dict(sorted(found.items()))


def arithmetic_of(probed: Iterable[ProbeResult]) -> KernelArithmetic | None:
    """The arithmetic of the variant's kernels, if a probe has read it."""
    return next((found for result in probed if (found := result.conclusion.arithmetic) is not None), None)


def not_judged(at_defaults: Iterable[str], operation: Operation, probed: Iterable[ProbeResult]) -> tuple[str, ...]:
    """The options of a function, and the head dimension of attention, that no probe varied."""
    varied = {name for result in probed for name in result.conclusion.varied}
    dimensions = {name: operation.parameters[name] for name in ("head_dim",) if name in operation.parameters}
    return (
        *(name for name in at_defaults if name not in varied),
        *(f"{name} other than {value_in_words(value)}" for name, value in dimensions.items() if name not in varied),
    )


def explains_any(defect: KnownDefect, probed: Iterable[ProbeResult]) -> bool:
    """True if a declared defect showed in a probe."""
    return any(
        defect.explains(shown.violation, result.case_id(shown.label))
        for result in probed
        for shown in result.conclusion.findings
    )


def only_probes_show(defect: KnownDefect) -> bool:
    """True if a declared defect is confined to probes, so that cases show nothing of it."""
    return all(glob.startswith(_PREFIX) for glob in defect.cases)


def had_their_chance(defect: KnownDefect, probed: Sequence[ProbeResult], *, quick: bool) -> bool:
    """True if every probe in which a defect may show ran all its trials, and one of these trials matches its globs."""
    names = [glob.removeprefix(_PREFIX).partition("/")[0] for glob in defect.cases]
    needed = {probe for probe in PROBES if any(fnmatchcase(probe, name) for name in names)}
    whole = {r.task.probe: r for r in probed if not r.abandoned and not r.conclusion.skipped}
    if quick or not needed <= set(whole):
        return False
    return any(defect.may_show(whole[probe].case_id(label)) for probe in needed for label in whole[probe].labels)


def skip_notes(run: Run) -> list[str]:
    """Remarks of probes, and lines per probe and reason for trials that could not be made, with the number of variants and dtypes.

    Reasons of the same probe and variants that differ only in numbers, such as sizes, share a line. The last line names the probes that had nothing to try.
    """
    concerned: dict[tuple[str, str], list[str]] = {}
    for result in run.probed:
        for reason in result.conclusion.skipped:
            where = f"{result.task.variant} {result.task.dtype}"
            concerned.setdefault((result.task.probe, reason), []).append(where)
    alike: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (probe, reason), subjects in concerned.items():
        alike.setdefault((probe, _NUMBER.sub("N", reason), tuple(subjects)), []).append(reason)
    noted: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for result in run.probed:
        for note in result.conclusion.notes:
            # What differs in numbers, or in what they are of, is one remark.
            key = result.task.probe, _NUMBER.sub("N", note.partition(",")[0])
            noted.setdefault(key, []).append((note, f"{result.task.variant} {result.task.dtype}"))
    left_out = [
        f"probe {probe}: {each[0][0]} {_of_all([place for _, place in each])}" for (probe, _), each in noted.items()
    ]
    without: list[str] = []
    for (probe, _, places), reasons in alike.items():
        reason = reasons[0] + (f", and {len(reasons) - 1} more with other numbers" if reasons[1:] else "")
        of_all = _of_all(places)
        if reason.startswith(NOTHING_TO_TRY):
            without.append(f"{probe} {reason.removeprefix(NOTHING_TO_TRY)} {of_all}")
        else:
            left_out.append(f"probe {probe}: trials skipped: {reason} {of_all}")
    return [*left_out, *([NOTHING_TO_TRY + "; ".join(without)] if without else [])]


def _of_all(places: Sequence[str]) -> str:
    return f"({places[0]}{f' and {len(places) - 1} more' if places[1:] else ''})"
