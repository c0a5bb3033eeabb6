"""The worker's answers to a probe with a fault of its own."""

import collections
from itertools import product

import pytest
import torch
from whole_probe import replies_to

from softcheck.contract import FindingKind, Violation
from softcheck.errors import SoftcheckError
from softcheck.operations.registry import OPERATIONS
from softcheck.probes import registry
from softcheck.probes.base import Probe, Setting, Trial
from softcheck.probes.outcome import NOTHING_TO_TRY, Conclusion, Outcome
from softcheck.run import trials
from softcheck.run.protocol import Probed, ProbePlanned, ProbeTask, TrialDone
from softcheck.run.trials import probe_replies, stream
from softcheck.variants.declaration import Declaration, declaration_of
from softcheck.variants.registry import LoadedVariant, load

CRASH = Outcome(violations=(Violation(FindingKind.CRASH, "gone"),))
RAISED = Outcome(violations=(Violation(FindingKind.RAISED, "no"),))


class Scripted(Probe):
    """Its trials' outcomes, or what they raise, are given; its conclusion holds nothing."""

    def __init__(self, *script, labels=None):
        self.script = script
        self.labels = labels or [str(i) for i in range(len(script))]

    def trials(self, setting):
        return [Trial(label, step) for label, step in zip(self.labels, self.script, strict=True)]

    def run(self, subject, trial):
        if isinstance(trial.parameters, Exception):
            raise trial.parameters
        return trial.parameters

    def conclude(self, done):
        return Conclusion(trials=len(done))


@pytest.fixture
def replies(monkeypatch):
    right = LoadedVariant("v", lambda x: torch.softmax(x, -1), Declaration())

    def make(probe, *done, variant=right):
        monkeypatch.setattr(registry, "load", lambda name: probe)
        task = ProbeTask(variant="v", probe="scripted", dtype="float16")
        return replies_to(lambda request: probe_replies(request, variant, torch.device("cpu")), task, done)

    return make


def test_trials_are_announced_made_and_concluded(replies):
    assert list(replies(Scripted(Outcome(), RAISED))) == [
        ProbePlanned(("0", "1")),
        TrialDone(Outcome()),
        TrialDone(RAISED),
        Probed(Conclusion(trials=2, planned=2)),
    ]


def test_probe_that_raises_is_an_error_that_names_probe_and_trial(replies):
    with pytest.raises(SoftcheckError, match="probe scripted, trial 0: internal error: KeyError"):
        list(replies(Scripted(KeyError("x"))))


NO_HOST_MEMORY = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 17 GB")


@pytest.mark.parametrize("error", [MemoryError("of 17 GB"), torch.OutOfMemoryError("of 17 GB"), NO_HOST_MEMORY])
def test_memory_that_the_probe_does_not_get_skips_the_trial_with_the_reason(replies, error):
    made = [reply for reply in replies(Scripted(error, Outcome())) if isinstance(reply, TrialDone)]
    assert made == [TrialDone(Outcome(skipped=f"too little memory: {error}", is_cut=True)), TrialDone(Outcome())]


def test_trials_that_are_cut_are_counted_among_those_that_had_something_to_try(replies):
    cut, nothing = Outcome(is_cut=True), Outcome(skipped=f"{NOTHING_TO_TRY}has no operands")
    *_, last = replies(Scripted(cut, Outcome(), nothing, Outcome(skipped="refused"), MemoryError("of 17 GB")))
    assert (last.conclusion.planned, last.conclusion.cut) == (4, 2)


def test_crash_is_concluded_even_where_the_probe_passes_over_it(replies):
    *_, last = replies(Scripted(Outcome(), RAISED), Outcome(), CRASH)
    assert [(s.label, s.violation.kind) for s in last.conclusion.findings] == [("1", FindingKind.CRASH)]


def test_nothing_follows_a_fatal_outcome(replies):
    *_, last = replies(Scripted(Outcome(fatal=True), Outcome()))
    assert last == TrialDone(Outcome(fatal=True))


def test_device_that_a_trial_left_unusable_is_a_crash_even_where_the_probe_saw_none(replies, monkeypatch):
    monkeypatch.setattr(trials, "is_usable", lambda device: False)
    *_, last = replies(Scripted(Outcome(), Outcome()))
    assert last.result.fatal
    assert [v.kind for v in last.result.violations] == [FindingKind.CRASH]


def test_two_trials_of_one_name_are_refused(replies):
    with pytest.raises(SoftcheckError, match="two trials are called 'a'"):
        list(replies(Scripted(Outcome(), Outcome(), labels=["a", "a"])))


@pytest.mark.parametrize(
    ("operation", "parameters"), [*((name, {}) for name in OPERATIONS), ("attention", {"head_dim": 16})]
)
def test_trials_of_each_probe_have_names_of_their_own(operation, parameters):
    for backend, effort, probe in product(("cuda", "interpreter"), registry.EFFORTS, registry.PROBES):
        declared = Declaration(operation=operation, parameters=parameters)
        setting = Setting(declaration=declared, dtype="float32", backend=backend, effort=effort)
        labels = [trial.label for trial in registry.load(probe).trials(setting)]
        assert len(set(labels)) == len(labels), (probe, backend)


def rows_by_trial():
    """Trials, over all probes, that call a variant on a row of random bits; narrow rows may be equal by chance."""
    called = set()

    def softmax(x):
        if x.shape[-1] > 16:
            rows = x.detach().contiguous().view(torch.int16).numpy()
            called.update(row.tobytes() for row in rows if len(set(row.tolist())) > 16)
        return torch.softmax(x, -1)

    found = collections.defaultdict(set)
    variant = LoadedVariant("v", softmax, declaration_of(softmax))
    for probe in registry.PROBES:
        if probe == "addresses":
            # Its strided inputs need a process that may ask for gigabytes; both its trials have streams as all have.
            continue
        # Plans of ways have as many trials for any number of calls.
        effort = "quick" if probe == "meetings" or probe in registry.SLICES else "normal"
        task = ProbeTask(variant="v", probe=probe, dtype="float16", effort=effort, time_share=0.01)
        for reply in replies_to(lambda request: probe_replies(request, variant, torch.device("cpu")), task):
            if isinstance(reply, ProbePlanned):
                labels = iter(reply.labels)
            elif isinstance(reply, TrialDone):
                label = next(labels)
                for row in called:
                    found[row].add(f"{probe}/{label}")
            called.clear()
    return found


def test_no_two_trials_share_a_row():
    """A variant that keeps answers by shape would otherwise give the right one in a later trial."""
    found = rows_by_trial()
    assert len(found) > 200
    shared = {frozenset(trials) for trials in found.values() if len(trials) > 1}
    assert shared == set()


def test_streams_depend_on_seed_source_probe_and_label():
    given = [
        (0, 7, "sizes", "a"),
        (1, 7, "sizes", "a"),
        (0, 8, "sizes", "a"),
        (0, 7, "shifts", "a"),
        (0, 7, "sizes", "b"),
    ]
    assert len({stream(*one) for one in given}) == len(given)
    assert stream(0, 7, "sizes", "a") == stream(0, 7, "sizes", "a")


def test_changed_code_meets_other_inputs(tmp_path, replies):
    seen = []

    class Watching(Scripted):
        def run(self, subject, trial):
            seen.append(subject.setting.seed)
            return trial.parameters

    for source in ("", "", "# changed"):
        path = tmp_path / str(len(seen)) / "kernels.py"
        path.parent.mkdir()
        path.write_text(f"import torch\ndef f(x):\n    return torch.softmax(x, -1)\n{source}\n")
        list(replies(Watching(Outcome()), variant=load(f"{path}:f")))
    assert seen[0] == seen[1] != seen[2]
