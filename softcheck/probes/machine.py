"""Histories as hypothesis' state machine: random ones, and the shortest one that still shows a fault."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import hypothesis
from hypothesis import strategies
from hypothesis.database import ExampleDatabase, choices_to_bytes
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from softcheck.cases.drawing import no_constants, quiet
from softcheck.probes.steps import Code

_STEPS = 30
"""Steps of a random history."""


class Playable(Protocol):
    """One history, played on a fresh copy of a variant."""

    def make(self, code: Code) -> None:
        """Makes the next step. Raises an Exception that shows a fault, or OverError."""

    def end(self) -> None:
        """Looks at all outputs again. Raises an Exception that shows a fault."""


class OverError(BaseException):
    """Ends a run at once. Hypothesis catches every Exception to go on with other histories, and no other error."""


def play_random(begin: Callable[[], Playable], changes: int, seed: int, histories: int) -> None:
    """Plays so many random histories of codes below ``changes``, until one shows a fault.

    A run without a fault begins with a history of ordinary steps alone.
    """
    _run(
        begin,
        changes,
        seed,
        max_examples=histories,
        phases=(hypothesis.Phase.generate,),
        stateful_step_count=_STEPS,
        database=None,
    )


def shorten(begin: Callable[[], Playable], changes: int, history: Sequence[Code]) -> None:
    """Shrinks a history that shows a fault, if hypothesis can replay it."""
    phases = (hypothesis.Phase.reuse, hypothesis.Phase.shrink)
    _run(begin, changes, 0, phases=phases, stateful_step_count=len(history), database=_Remembered(history))


def _run(begin: Callable[[], Playable], changes: int, seed: int, **settings: object) -> None:
    change = strategies.integers(0, changes - 1)

    class History(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self._played = begin()
            self._is_broken = False

        @rule(first=change, second=change)
        def call(self, first: int, second: int) -> None:
            self._is_broken = True
            self._played.make((first, second))
            self._is_broken = False

        def teardown(self) -> None:
            if not self._is_broken:
                self._played.end()

    with no_constants():
        run_state_machine_as_test(hypothesis.seed(seed)(History), settings=quiet(**settings))


class _Remembered(ExampleDatabase):
    """Gives hypothesis a history as if an earlier run had found and not yet shrunk it.

    Its choices are those of a machine with one rule. Hypothesis draws at random what it can't take from them.
    """

    def __init__(self, history: Sequence[Code]) -> None:
        super().__init__()
        # Each step: do not stop, and leave the rule enabled; the first one decides how many rules are not.
        choices = [choice for code in history for choice in (False, False, *code)]
        self._bytes = choices_to_bytes([False, 0, *choices[1:], True])

    def fetch(self, key: bytes) -> Iterable[bytes]:
        return [self._bytes] if key.endswith(b".secondary") else []

    def save(self, key: bytes, value: bytes) -> None:
        """Keeps nothing."""

    def delete(self, key: bytes, value: bytes) -> None:
        """Keeps nothing."""
