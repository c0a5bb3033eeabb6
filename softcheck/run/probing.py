"""Probes on the pool. A trial that ends its worker costs a finding on that trial alone. Imports no torch."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from softcheck.errors import SoftcheckError
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.probes.registry import SPREAD, WIDE, WIDEST
from softcheck.run.again import answered
from softcheck.run.blame import lay
from softcheck.run.calls import Answer, in_trial
from softcheck.run.pool import Job, Lane, Pool, spread
from softcheck.run.process import WorkerDiedError
from softcheck.run.protocol import Probed, ProbePlanned, ProbeTask, RunProbe, TrialDone
from softcheck.variants.declaration import Backend

MOST_DEATHS_IN_A_PROBE = 3
"""Trials that ended their worker, after which a probe gives a variant up: each new worker takes seconds."""


Told = TypeVar("Told", ProbePlanned, Probed)


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
    found: list[ProbeResult] = []
    lane = Lane([probe_job(pool, task, done=done, on_outcome=on_outcome)], pool.jobs)
    if errors := spread(pool, [lane], found.append, lambda _done, _total: None):
        raise SoftcheckError(errors[0])
    return found[0] if found else None


def planned_calls(pool: Pool, task: ProbeTask) -> tuple[str, ...]:
    """Returns words for what a probe's trials would do. Raises SoftcheckError for a fault of the probe itself."""
    return _Trials(pool, task, (), lambda _index, _outcome: None).calls()


def _widest(pool: Pool, task: ProbeTask) -> int | None:
    """The width to which kernels are compiled for this probe; None if the probe tries no wider rows."""
    limit = pool.width_limit(task.variant, task.dtype, WIDE if task.effort == "quick" else WIDEST.get(task.probe, WIDE))
    return None if limit is None else limit.holds_to


def _outcome_of(answer: Answer | WorkerDiedError) -> Outcome:
    """The outcome of a trial by its answer, or by the end of its process."""
    told = answer.reply if isinstance(answer, WorkerDiedError) else answer
    if isinstance(told, TrialDone):
        return told.result
    assert isinstance(answer, WorkerDiedError)
    return Outcome(violations=(answer.violation(),), fatal=True)


def probe_job(
    pool: Pool,
    task: ProbeTask,
    *,
    done: Sequence[Outcome] = (),
    on_outcome: Callable[[int, Outcome], None] = lambda _index, _outcome: None,
) -> Job[ProbeResult]:
    """Returns a job that plans a probe's trials and makes them, or has each made by a job of its own (``SPREAD``).

    The last trial concludes. A variant that was given up before has no result. The rest is as in ``run_probe``.
    """
    trials = _Trials(pool, task, done, on_outcome)
    followers: list[Job[ProbeResult]] = []

    def make(index: int, emit: Callable[[ProbeResult], None]) -> None:
        if trials.make(index):
            emit(trials.concluded())

    def work(emit: Callable[[ProbeResult], None]) -> None:
        if pool.patience.over(task.variant, task.dtype) is not None:
            return
        jobs = [Job(str(task), partial(make, index)) for index in trials.plan()]
        if not jobs:
            emit(trials.concluded())
        elif task.probe in SPREAD:
            followers.extend(jobs)
        else:
            for job in jobs:
                job.work(emit)

    return Job(str(task), work, followers)


class _Trials:
    """The trials of one probe. Threads may share this object."""

    def __init__(
        self, pool: Pool, task: ProbeTask, done: Sequence[Outcome], on_outcome: Callable[[int, Outcome], None]
    ) -> None:
        self._pool, self.task, self._on_outcome = pool, task, on_outcome
        self._begun = time.monotonic()
        self._labels: tuple[str, ...] = ()
        self._abandoned = 0
        self._outcomes: dict[int, Outcome] = dict(enumerate(done))
        self._told = len(done)
        """Trials whose outcomes were told: those of a journal are in order."""
        self._given_up = Outcome()
        """The outcome of trials that are not made, which no journal keeps."""
        self._lock = threading.Lock()

    def calls(self) -> tuple[str, ...]:
        """Returns words for what the trials would do, none of which is made."""
        return self._told_by(ProbePlanned, self._request(tells_calls=True)).calls

    def plan(self) -> range:
        """Learns which trials there are; returns the numbers of those without an outcome."""
        self._begun = time.monotonic()
        self._labels = self._told_by(ProbePlanned, self._request()).labels
        return range(len(self._outcomes), len(self._labels))

    def make(self, index: int) -> bool:
        """Makes one trial, unless the variant ends each process and is given up. Returns True once all have an end."""
        if (why := self._why_given_up()) is None:
            call = in_trial(self.task, index, self._labels[index], _widest(self._pool, self.task))
            outcome = _outcome_of(answered(self._pool, call, str(self.task)))
            if outcome.skipped is None:
                violations = outcome.violations if outcome.fatal else ()
                self._pool.patience.count(self.task.variant, self.task.dtype, violations)
        with self._lock:
            if why is None:
                self._outcomes[index] = outcome
            else:
                self._abandoned += 1
                self._given_up = Outcome(skipped=f"given up: {why}", is_cut=True)
            # An outcome is told once those of all trials before it are there.
            while self._told in self._outcomes:
                self._on_outcome(self._told, self._outcomes[self._told])
                self._told += 1
            return len(self._outcomes) + self._abandoned == len(self._labels)

    def _why_given_up(self) -> str | None:
        over = self._pool.patience.over(self.task.variant, self.task.dtype)
        with self._lock:
            deaths = sum(outcome.fatal for outcome in self._outcomes.values())
        if over is None and deaths < MOST_DEATHS_IN_A_PROBE:
            return None
        return f"{MOST_DEATHS_IN_A_PROBE} trials ended their process" if over is None else over.why

    def concluded(self) -> ProbeResult:
        """Returns the probe's result from the outcomes of all trials."""
        done = tuple(self._outcomes.get(index, self._given_up) for index in range(len(self._labels)))
        return ProbeResult(
            task=self.task,
            labels=self._labels,
            conclusion=self._told_by(Probed, self._request(outcomes=done)).conclusion,
            abandoned=self._abandoned,
            seconds=time.monotonic() - self._begun,
        )

    def _told_by(self, kind: type[Told], request: RunProbe) -> Told:
        """Returns the reply of one kind to a request that makes no trial."""
        pool, found = self._pool, None
        while found is None:
            worker = pool.take(self.task.variant)
            try:
                for reply in pool.ask(worker, request, str(self.task)):
                    found = reply if isinstance(reply, kind) else found
            except WorkerDiedError as died:
                if not worker.calls:
                    raise SoftcheckError(f"{self.task}: {died}") from None
                lay(pool, worker.calls, died)
        return found

    def _request(self, *, outcomes: tuple[Outcome, ...] | None = None, tells_calls: bool = False) -> RunProbe:
        widest = _widest(self._pool, self.task)
        return RunProbe(task=self.task, outcomes=outcomes, tells_calls=tells_calls, widest=widest)
