"""A probe made whole by one worker's answers: its plan, its trials, its conclusion."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from softcheck.probes.outcome import Outcome
from softcheck.run.protocol import Probed, ProbePlanned, ProbeTask, Reply, RunProbe, TrialDone


def replies_to(
    answer: Callable[[RunProbe], Iterable[Reply]], task: ProbeTask, done: Sequence[Outcome] = ()
) -> Iterator[Reply]:
    """All replies but Done. Trials with outcomes are not made, and nothing follows a fatal outcome."""
    outcomes = list(done)
    (planned,) = (reply for reply in answer(RunProbe(task=task)) if isinstance(reply, ProbePlanned))
    yield planned
    for index in range(len(outcomes), len(planned.labels)):
        for reply in answer(RunProbe(task=task, trial=index)):
            if isinstance(reply, TrialDone):
                outcomes.append(reply.result)
                yield reply
        if outcomes[-1].fatal:
            return
    yield from (r for r in answer(RunProbe(task=task, outcomes=tuple(outcomes))) if isinstance(r, Probed))
