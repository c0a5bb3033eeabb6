"""A probe's trials as the worker plans, makes and concludes them."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec
import torch

from softcheck.calling.call import describe, is_out_of_memory, is_usable
from softcheck.calling.memory import lack_in_words, patiently
from softcheck.calling.state import is_lost
from softcheck.contract import FindingKind, Violation
from softcheck.errors import SoftcheckError, UninterpretableError
from softcheck.probes import registry
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.outcome import NOTHING_TO_TRY, Conclusion, Outcome, Shown
from softcheck.run.protocol import Done, Probed, ProbePlanned, ProbeTask, Reply, RunProbe, Started, TrialDone
from softcheck.variants import coverage
from softcheck.variants.registry import LoadedVariant
from softcheck.variants.source import source_of

_ENDED = frozenset({FindingKind.CRASH, FindingKind.TIMEOUT})


def probe_replies(request: RunProbe, variant: LoadedVariant, device: torch.device) -> Iterator[Reply]:
    """Replies to one request: the plan of a probe's trials, one trial, or the conclusion.

    Raises SoftcheckError for a fault of the probe itself.
    """
    task = request.task
    setting = Setting(
        declaration=variant.declaration,
        dtype=task.dtype,
        backend="cuda" if device.type == "cuda" else "interpreter",
        effort=task.effort,
        axis=task.axis,
        seed=task.seed,
        widest=request.widest,
        time_share=task.time_share,
    )
    probe, trials = _planned(task.probe, setting)
    if request.outcomes is not None:
        yield Probed(_concluded(task.probe, probe, trials, request.outcomes))
        return
    if request.trial is None:
        tells = request.tells_calls and trials
        calls = probe.calls(_subject(task, trials[0], variant, setting, device), trials) if tells else ()
        yield ProbePlanned(tuple(trial.label for trial in trials), tuple(calls))
    else:
        yield Started(task.variant)
        trial = trials[request.trial]
        outcome = _outcome(task.probe, probe, _subject(task, trial, variant, setting, device), trial)
        # With the lines of cases that this process has run for the variant before.
        run = coverage.newly_run(variant.name).union(outcome.lines)
        yield TrialDone(msgspec.structs.replace(outcome, lines=tuple(sorted(run))))
    yield Done()


def stream(seed: int, source: int, probe: str, label: str) -> int:
    """Returns the seed of one trial's inputs. ``source`` is a digest of the variant's code.

    Each trial has its own seed: an answer that a variant kept from another trial of the same shape is then wrong. A run
    repeats until the code changes; changed code meets other inputs.
    """
    digest = hashlib.sha256(f"{seed} {source} {probe}/{label}".encode()).digest()
    return int.from_bytes(digest[:4])


def _subject(task: ProbeTask, trial: Trial, variant: LoadedVariant, setting: Setting, device: torch.device) -> Subject:
    source = source_of(variant.function).digest
    return Subject(variant, replace(setting, seed=stream(task.seed, source, task.probe, trial.label)), device)


def _planned(name: str, setting: Setting) -> tuple[Probe, list[Trial]]:
    try:
        probe = registry.load(name)
        trials = list(probe.trials(setting))
    except SoftcheckError:
        raise
    except Exception as error:
        raise SoftcheckError(f"probe {name}: internal error: {describe(error)}") from error
    labels = [trial.label for trial in trials]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise SoftcheckError(f"probe {name}: internal error: two trials are called {twice!r}")
    return probe, trials


def _outcome(name: str, probe: Probe, subject: Subject, trial: Trial) -> Outcome:
    """Makes a trial and returns its outcome.

    The trial is skipped if the device has too little memory, at later attempts too, or if it needs an operation that
    Triton's interpreter can't run.
    """
    try:
        outcome = patiently(lambda: probe.run(subject, trial), subject.device)
    except UninterpretableError as error:
        outcome = Outcome(skipped=str(error))
    except SoftcheckError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            outcome = Outcome(skipped=lack_in_words(error), is_cut=True)
        elif is_usable(subject.device):
            raise SoftcheckError(f"probe {name}, trial {trial.label}: internal error: {describe(error)}") from error
        else:
            outcome = Outcome(violations=(Violation(FindingKind.CRASH, f"{describe(error)}; expected an output"),))
    if outcome.fatal:
        return outcome
    if is_usable(subject.device):
        return msgspec.structs.replace(outcome, fatal=is_lost())
    # A kernel that went on after the call returned may have ruined the device only now.
    late = Violation(
        FindingKind.CRASH, "the device can't be used any more after the call; expected it to be left usable"
    )
    has_crash = any(violation.kind is FindingKind.CRASH for violation in outcome.violations)
    violations = outcome.violations if has_crash else (*outcome.violations, late)
    return msgspec.structs.replace(outcome, violations=violations, fatal=True)


def _concluded(name: str, probe: Probe, trials: Sequence[Trial], outcomes: Sequence[Outcome]) -> Conclusion:
    """Returns the probe's conclusion, and adds each crash or timeout that the probe's own conclusion passes over."""
    try:
        said = probe.conclude(list(zip(trials, outcomes, strict=True)))
    except Exception as error:
        raise SoftcheckError(f"probe {name}: internal error in its conclusion: {describe(error)}") from error
    told = {shown.violation.kind for shown in said.findings}
    words = "; ".join(shown.violation.message for shown in said.findings)
    untold: dict[FindingKind, Shown] = {}
    for trial, outcome in zip(trials, outcomes, strict=True):
        for violation in outcome.violations:
            if violation.kind in _ENDED - told and violation.message not in words:
                untold.setdefault(violation.kind, Shown(trial.label, violation))
    run = {line for outcome in outcomes for line in outcome.lines}
    arcs = {arc for outcome in outcomes for arc in outcome.arcs}
    return msgspec.structs.replace(
        said,
        findings=(*said.findings, *untold.values()),
        planned=sum(not (each.skipped or "").startswith(NOTHING_TO_TRY) for each in outcomes),
        cut=sum(each.is_cut for each in outcomes),
        lines=tuple(sorted(run)),
        arcs=tuple(sorted(arcs)),
    )
