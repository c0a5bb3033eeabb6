"""Probes on the pool. A trial that ends its worker costs a finding on that trial alone. Imports no torch."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from softcheck.errors import SoftcheckError
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.probes.registry import SPREAD, WIDE, WIDEST
from softcheck.run.again import Sighting, again, made, unshown
from softcheck.run.blame import lay_idle
from softcheck.run.calls import Answer, in_trial
from softcheck.run.pool import Job, Pool
from softcheck.run.process import Worker, WorkerDiedError
from softcheck.run.protocol import Probed, ProbePlanned, ProbeTask, RunProbe, TrialDone
from softcheck.run.session import death
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
    begun = time.monotonic()
    trials = _Trials(pool, task, done, on_outcome)
    if not trials.plan():
        return None
    helpers = len(trials.labels) - 1 if task.probe in SPREAD else 0
    with ThreadPoolExecutor(max_workers=max(1, helpers)) as threads:
        helping = [threads.submit(_help, pool, trials) for _ in range(helpers)]
        try:
            trials.make_all(lambda: pool.take(task.variant))
        finally:
            trials.is_over = True
        for helper in helping:
            helper.result()
    # What a helper had begun for which there was no worker.
    trials.make_all(lambda: pool.take(task.variant))
    conclusion = trials.concluded()
    return ProbeResult(
        task=task,
        labels=trials.labels,
        conclusion=conclusion,
        abandoned=trials.abandoned,
        seconds=time.monotonic() - begun,
    )


def planned_calls(pool: Pool, task: ProbeTask) -> tuple[str, ...]:
    """Returns words for what a probe's trials would do. Raises SoftcheckError for a fault of the probe itself."""
    return _Trials(pool, task, (), lambda _index, _outcome: None).calls()


_TURN_SECONDS = 0.1


def _help(pool: Pool, trials: "_Trials") -> None:
    """Makes trials on workers that have nothing else to do."""
    while not trials.is_over:
        trials.make_all(pool.spare)
        time.sleep(_TURN_SECONDS)


def _widest(pool: Pool, task: ProbeTask) -> int | None:
    """The width to which kernels are compiled for this probe; None if the probe tries no wider rows."""
    limit = pool.width_limit(task.variant, task.dtype, WIDE if task.effort == "quick" else WIDEST.get(task.probe, WIDE))
    return None if limit is None else limit.holds_to


def _outcome_alone(answer: Answer | WorkerDiedError) -> Outcome:
    """The outcome of a trial that was made alone: its answer, or the end of that process."""
    told = answer.reply if isinstance(answer, WorkerDiedError) else answer
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


class _Trials:
    """The trials of one probe, made by threads that each have a worker."""

    def __init__(
        self, pool: Pool, task: ProbeTask, done: Sequence[Outcome], on_outcome: Callable[[int, Outcome], None]
    ) -> None:
        self._pool, self.task, self._on_outcome = pool, task, on_outcome
        self.labels: tuple[str, ...] = ()
        self.abandoned = 0
        self.is_over = False
        """True if no thread needs help any more."""
        self._outcomes: dict[int, Outcome] = dict(enumerate(done))
        self._told = len(done)
        """Trials whose outcomes were told: those of a journal are in order."""
        self._given_up = Outcome()
        """The outcome of trials that are not made, which no journal keeps."""
        self._left: deque[int] = deque()
        """Trials that nobody has begun."""
        self._lock = threading.Lock()
        self._began: dict[int, Sighting] = {}
        self._repeated: set[int] = set()

    def calls(self) -> tuple[str, ...]:
        """Returns words for what the trials would do, none of which is made."""
        return self._told_by(ProbePlanned, self._request(tells_calls=True)).calls

    def plan(self) -> bool:
        """Learns which trials there are; returns False if the variant was given up before."""
        if self._pool.patience.over(self.task.variant, self.task.dtype) is not None:
            return False
        self.labels = self._told_by(ProbePlanned, self._request()).labels
        self._left.extend(range(len(self._outcomes), len(self.labels)))
        return True

    def make_all(self, take: Callable[[], Worker | None]) -> None:
        """Makes one trial after the other, until none is left or there is no worker."""
        while (index := self._begin()) is not None:
            if not self._make(take, index):
                with self._lock:
                    self._left.appendleft(index)
                return

    def _begin(self) -> int | None:
        """Returns the next trial, None if there is none. Gives up those left of a variant that ends each process."""
        over = self._pool.patience.over(self.task.variant, self.task.dtype)
        with self._lock:
            deaths = sum(outcome.fatal for outcome in self._outcomes.values())
            if over is not None or deaths >= MOST_DEATHS_IN_A_PROBE:
                why = f"{MOST_DEATHS_IN_A_PROBE} trials ended their process" if over is None else over.why
                self.abandoned += len(self._left)
                self._given_up = Outcome(skipped=f"given up: {why}", is_cut=True)
                self._left.clear()
            return self._left.popleft() if self._left else None

    def _make(self, take: Callable[[], Worker | None], index: int) -> bool:
        """Makes one trial. Returns False if there is no worker."""
        call = in_trial(self.task, index, self.labels[index], _widest(self._pool, self.task))
        while (worker := take()) is not None:
            answer, seen = made(self._pool, worker, call, lambda: self._pool.waits(call.variant), str(self.task))
            if answer is None:
                continue
            if seen is not None:
                self._began[index] = seen
            self._keep(index, _outcome_alone(answer))
            return True
        return False

    def _keep(self, index: int, outcome: Outcome) -> None:
        """Keeps an outcome, and tells of it once those of all trials before it are there."""
        if outcome.skipped is None:
            violations = outcome.violations if outcome.fatal else ()
            self._pool.patience.count(self.task.variant, self.task.dtype, violations)
        with self._lock:
            self._outcomes[index] = outcome
            while self._told in self._outcomes:
                self._on_outcome(self._told, self._outcomes[self._told])
                self._told += 1

    def concluded(self) -> Conclusion:
        """Returns the conclusion, once its findings have shown again."""
        while True:
            done = tuple(self._outcomes.get(index, self._given_up) for index in range(len(self.labels)))
            conclusion = self._told_by(Probed, self._request(outcomes=done)).conclusion
            if not self._is_changed_by_repeating(conclusion):
                return conclusion

    def _told_by(self, kind: type[Told], request: RunProbe) -> Told:
        """Returns the reply of one kind to a request that makes no trial."""
        pool, found = self._pool, None
        while found is None:
            worker = pool.take(self.task.variant)
            try:
                for reply in pool.ask(worker, request, lambda: pool.waits(self.task.variant), str(self.task)):
                    found = reply if isinstance(reply, kind) else found
            except WorkerDiedError as died:
                if not worker.calls:
                    raise SoftcheckError(f"{self.task}: {died}") from None
                lay_idle(pool, worker.calls, died)
        return found

    def _is_changed_by_repeating(self, conclusion: Conclusion) -> bool:
        """Shows the conclusion's findings again, each by its whole trial; returns True if an outcome changed, so that it must be drawn anew."""
        for shown in conclusion.findings:
            index = self.labels.index(shown.trial or shown.label)
            if index not in self._began or index in self._repeated:
                continue
            # A conclusion may give what its trials found another kind.
            found = self._outcomes[index].violations
            if not unshown(self._pool, self._began[index].call, found):
                continue
            self._repeated.add(index)
            answer = again(self._pool, self._began[index], found)
            if answer is not None:
                self._outcomes[index] = _outcome_alone(answer)
                return True
        return False

    def _request(self, *, outcomes: tuple[Outcome, ...] | None = None, tells_calls: bool = False) -> RunProbe:
        widest = _widest(self._pool, self.task)
        return RunProbe(task=self.task, outcomes=outcomes, tells_calls=tells_calls, widest=widest)
