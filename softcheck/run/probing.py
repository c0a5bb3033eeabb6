"""Probes on the pool. A trial that ends its worker costs a finding on that trial alone. Imports no torch."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oracles.formats import FORMATS
from softcheck.errors import SoftcheckError
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.probes.registry import EXCLUSIVE, HEAVY, WIDE, WIDEST, Effort
from softcheck.run.again import Sighting, again, unshown
from softcheck.run.blame import again_alone, alone, lay_idle
from softcheck.run.calls import Answer, in_trial
from softcheck.run.pool import Job, Pool, SessionClosedError
from softcheck.run.process import DeviceRuinedError, Worker, WorkerDiedError
from softcheck.run.protocol import Probed, ProbePlanned, Ready, RunProbe, TrialDone, TrialStarted
from softcheck.run.session import death
from softcheck.variants.declaration import Backend

MOST_DEATHS_IN_A_PROBE = 3
"""Trials that ended their worker, after which a probe gives a variant up: each new worker takes seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTask:
    """One probe on one variant in one dtype."""

    variant: str
    dtype: str
    probe: str
    effort: Effort = "normal"
    axis: str | None = None
    """The one way that the probe ``meetings`` calls, in place of a plan of ways."""
    seed: int = 0
    time_share: float = 1.0
    """Part of their time that probes with a limit of time take: less where many variants share a machine without a GPU."""

    def __str__(self) -> str:
        return f"probe {self.probe} on {self.variant}, {self.dtype}"


_WHOLE_TIME = 3
"""Subjects, each a variant in a dtype, up to which probes take all of their time without a GPU."""
_ALONE = 2.0
"""Times that a probe takes longer that is asked for alone, as by the line that reproduces a finding: what another run found
near the limit of its time is found again."""


def time_share(backend: Backend, subjects: int, *, is_alone: bool = False) -> float:
    """Part of their time that probes with a limit of time take in a run on so many subjects; more if one probe is run alone."""
    share = 1.0 if backend == "cuda" else min(1.0, _WHOLE_TIME / max(1, subjects))
    return share * _ALONE if is_alone else share


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """The result of a probe."""

    task: ProbeTask
    labels: tuple[str, ...]
    """Labels of all trials that the probe planned."""
    conclusion: Conclusion
    abandoned: int
    """Trials that were not made because earlier trials had ended too many workers."""
    seconds: float

    def case_id(self, label: str) -> str:
        """Returns the id under which findings of one trial are reported."""
        return f"probe/{self.task.probe}/{label}"


def run_probe(
    pool: Pool,
    task: ProbeTask,
    *,
    done: Sequence[Outcome] = (),
    on_outcome: Callable[[int, Outcome], None] = lambda _index, _outcome: None,
) -> ProbeResult | None:
    """Makes the trials that have no outcome in ``done`` and concludes; None if the variant was given up before.

    Each new outcome reaches ``on_outcome`` with its trial's index as soon as it is there. Raises SoftcheckError if the
    probe itself can't be carried out.
    """
    begun = time.monotonic()
    trials = _Trials(pool, task, done, on_outcome)
    while trials.conclusion is None or trials.repeat():
        over = pool.patience.over(task.variant, task.dtype)
        if over is not None and trials.labels is None:
            return None
        if over is not None or sum(outcome.fatal for outcome in trials.outcomes) >= MOST_DEATHS_IN_A_PROBE:
            trials.abandon(f"{MOST_DEATHS_IN_A_PROBE} trials ended their process" if over is None else over.why)
        before = len(trials.outcomes)
        widest = _widest(pool, task)
        worker = pool.take()
        try:
            trials.make(worker, widest)
        except SessionClosedError:
            raise
        except SoftcheckError as error:
            _go_on_after(error, pool, trials, worker, has_outcome=len(trials.outcomes) > before)
    return ProbeResult(
        task=task,
        labels=trials.labels or (),
        conclusion=trials.conclusion,
        abandoned=trials.abandoned,
        seconds=time.monotonic() - begun,
    )


def _widest(pool: Pool, task: ProbeTask) -> int | None:
    """The width to which kernels are compiled for this probe; None if the probe tries no wider rows."""
    limit = pool.width_limit(task.variant, task.dtype, WIDE if task.effort == "quick" else WIDEST.get(task.probe, WIDE))
    return None if limit is None else limit.holds_to


def _go_on_after(error: SoftcheckError, pool: Pool, trials: "_Trials", worker: Worker, *, has_outcome: bool) -> None:
    """Keeps the outcome of the trial that ended its worker, or that failed in it, made again alone. Raises SoftcheckError if it fails there too."""
    if not isinstance(error, WorkerDiedError):
        if trials.running is None:
            raise error
        # Memory that an earlier call has damaged may fail softcheck itself.
        trials.keep(trials.running, _outcome_alone(alone(pool, worker.calls[-1])))
    elif trials.running is not None:
        trials.keep(trials.running, _outcome_alone(again_alone(pool, worker, worker.calls[-1], error)))
    elif worker.calls:
        lay_idle(pool, worker.calls, error)
    elif not has_outcome:
        raise SoftcheckError(f"{trials.task}: {error}") from None


def _outcome_alone(answer: Answer | WorkerDiedError) -> Outcome:
    """The outcome of a trial that was made alone: its answer, or the end of that process."""
    told = answer.reply if isinstance(answer, DeviceRuinedError) else answer
    if isinstance(told, TrialDone):
        return told.outcome
    assert isinstance(answer, WorkerDiedError)
    return Outcome(violations=(death(answer),), fatal=True)


def probe_job(
    pool: Pool,
    task: ProbeTask,
    *,
    done: Sequence[Outcome] = (),
    on_outcome: Callable[[int, Outcome], None] = lambda _index, _outcome: None,
) -> Job[ProbeResult]:
    """Returns ``run_probe`` as a job of ``pool.spread``. A variant that was given up before has no result."""

    def work(emit: Callable[[ProbeResult], None]) -> None:
        found = run_probe(pool, task, done=done, on_outcome=on_outcome)
        if found is not None:
            emit(found)

    return Job(str(task), work)


def is_exclusive(task: ProbeTask, ready: Ready) -> bool:
    """True if a probe takes so much of a GPU's memory that no other exclusive probe may run beside it."""
    return ready.backend == "cuda" and task.probe in EXCLUSIVE


def is_heavy(task: ProbeTask, ready: Ready) -> bool:
    """True if a probe keeps a GPU busy, so that few of them run at once."""
    return ready.backend == "cuda" and task.probe in HEAVY


def needs_the_device(task: ProbeTask, ready: Ready) -> bool:
    """True if a probe takes so much of a GPU's memory that nothing else may run beside it."""
    if not is_exclusive(task, ready):
        return False
    needed = EXCLUSIVE[task.probe] * FORMATS[task.dtype].itemsize
    return ready.memory_bytes is None or _TIMES * needed > ready.memory_bytes


_TIMES = 3
"""Multiple of a probe's memory that a GPU needs: once for the probe, once for other jobs and contexts, once to
spare."""


class _Trials:
    """The trials of one probe: those that were made, and the one that runs."""

    def __init__(
        self, pool: Pool, task: ProbeTask, done: Sequence[Outcome], on_outcome: Callable[[int, Outcome], None]
    ) -> None:
        self._pool, self.task, self._on_outcome = pool, task, on_outcome
        self.outcomes = list(done)
        self.labels: tuple[str, ...] | None = None
        """None until the probe has planned its trials."""
        self.running: int | None = None
        self._began: dict[int, Sighting] = {}
        self._repeated: set[int] = set()
        self.abandoned = 0
        self.conclusion: Conclusion | None = None

    def keep(self, index: int, outcome: Outcome) -> None:
        """Records the outcome of the current trial."""
        assert index == len(self.outcomes)
        if outcome.skipped is None:
            violations = outcome.violations if outcome.fatal else ()
            self._pool.patience.count(self.task.variant, self.task.dtype, violations)
        self.outcomes.append(outcome)
        self.running = None
        self._on_outcome(index, outcome)

    def abandon(self, why: str) -> None:
        """Gives the remaining trials a skipped outcome with the reason."""
        left = len(self.labels or ()) - len(self.outcomes)
        self.abandoned += left
        self.outcomes += [Outcome(skipped=f"given up: {why}", is_cut=True)] * left

    def repeat(self) -> bool:
        """Shows the conclusion's findings again, each by its whole trial; returns True if an outcome changed, so that it must be drawn anew."""
        assert self.conclusion is not None
        for shown in self.conclusion.findings:
            index = (self.labels or ()).index(shown.trial or shown.label)
            if index not in self._began or index in self._repeated:
                continue
            # A conclusion may give what its trials found another kind.
            found = self.outcomes[index].violations
            if not unshown(self._pool, self._began[index].call, found):
                continue
            self._repeated.add(index)
            answer = again(self._pool, self._began[index], found)
            if answer is not None:
                self.outcomes[index] = _outcome_alone(answer)
                self.conclusion = None
                return True
        return False

    def make(self, worker: Worker, widest: int | None) -> None:
        """Makes the remaining trials and concludes. Raises WorkerDiedError if a trial ends the worker."""
        task = self.task
        done, share = tuple(self.outcomes), task.time_share
        request = RunProbe(
            task.variant,
            task.probe,
            task.dtype,
            task.effort,
            task.seed,
            done,
            widest=widest,
            time_share=share,
            axis=task.axis,
        )
        for reply in self._pool.ask(worker, request, lambda: self._pool.waits(task.variant), str(task)):
            if isinstance(reply, ProbePlanned):
                self.labels = reply.labels
            elif isinstance(reply, TrialStarted):
                assert self.labels is not None
                self.running = reply.index
                worker.calls.append(in_trial(request, reply.index, self.labels[reply.index]))
                self._began[reply.index] = Sighting.of(worker)
            elif isinstance(reply, TrialDone):
                self.keep(reply.index, reply.outcome)
            elif isinstance(reply, Probed):
                self.conclusion = reply.conclusion
