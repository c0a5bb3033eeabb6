"""Probes in a report: their findings, trials and skipped trials, and declared defects that they can't find."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from softcheck.contract import Violation
from softcheck.operations.operation import Operation, value_in_words
from softcheck.probes.outcome import NOTHING_TO_TRY, KernelArithmetic
from softcheck.probes.registry import PROBES, described
from softcheck.report.figures import several
from softcheck.report.findings import FindingSource
from softcheck.report.model import Finding
from softcheck.report.reproduce import bits_command, probe_command
from softcheck.run.model import Run
from softcheck.run.probing import ProbeResult
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


def trials_of(probed: Iterable[ProbeResult]) -> dict[str, int]:
    """Trials made, by probe, in the order in which probes are registered."""
    made = {result.task.probe: result.conclusion.trials for result in probed}
    return {name: made[name] for name in described() if name in made}


def properties_of(probed: Iterable[ProbeResult]) -> dict[str, bool]:
    """Properties that probes looked for, and whether they hold."""
    found = [item for result in probed for item in result.conclusion.properties.items()]
    return {name: (name, False) not in found for name, _ in sorted(found)}


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


def shown(probed: Iterable[ProbeResult]) -> list[tuple[Violation, str]]:
    """The broken promises that probes found, each with the name of its trial."""
    return [(each.violation, result.case_id(each.label)) for result in probed for each in result.conclusion.findings]


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
    """Remarks of probes and reasons for skipped trials, one line for what differs in numbers alone, and last the probes with nothing to try."""
    said: dict[tuple[str, str], tuple[dict[str, None], dict[str, None]]] = {}
    for result in run.probed:
        # What a remark's numbers are of follows a comma.
        remarks = [(note, note.partition(",")[0]) for note in result.conclusion.notes]
        remarks += [(f"trials skipped: {reason}", reason) for reason in result.conclusion.skipped]
        for text, alike in remarks:
            texts, places = said.setdefault((result.task.probe, _NUMBER.sub("N", alike)), ({}, {}))
            texts.setdefault(text)
            places.setdefault(f"{result.task.variant} {result.task.dtype}")
    lines, without = [], []
    for (probe, _), (texts, places) in said.items():
        first, *others = texts
        reason = first + (f", and {len(others)} more with other numbers" if others else "")
        of_all = f"({several(list(places))})"
        if NOTHING_TO_TRY in reason:
            without.append(f"{probe} {reason.partition(NOTHING_TO_TRY)[2]} {of_all}")
        else:
            lines.append(f"probe {probe}: {reason} {of_all}")
    return [*lines, *([NOTHING_TO_TRY + "; ".join(without)] if without else [])]
