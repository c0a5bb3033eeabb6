"""Hypothesis as a source of inputs: a seed draws the same whatever else is imported. Imports no torch."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_replaced: list[Any] = []
"""Hypothesis' own function first, then replacements: one for each thread that draws without constants."""


def call_with_each(
    strategy: Any, function: Callable[[Any], object], *, seed: int, examples: int, **settings: Any
) -> None:
    """Calls a function with examples of a strategy; ``settings`` are hypothesis's.

    If the function raises, the smallest example for which it does is looked for, and what it raises there is raised.
    """
    import hypothesis

    def judged(example: Any) -> None:
        function(example)

    with no_constants():
        given: Any = hypothesis.given(strategy)
        chosen = quiet(max_examples=examples, database=None, **settings)
        hypothesis.seed(seed)(chosen(given(judged)))()


def quiet(**settings: Any) -> Any:
    """Returns hypothesis.settings without deadline, health checks or output, and with others as they are given."""
    import hypothesis

    # Without the phase that explains a failure: it takes most of the time, and its words are for hypothesis's own output.
    phases = hypothesis.Phase.generate, hypothesis.Phase.target, hypothesis.Phase.shrink
    settings.setdefault("phases", phases)
    return hypothesis.settings(
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
        **settings,
    )


@contextmanager
def no_constants() -> Iterator[None]:
    """Keeps hypothesis from drawing constants, which it reads from every imported module of the working folder.

    With constants the same seed would give other rows in another program. The patched name is private; if hypothesis
    has no such name, nothing is changed.
    """
    from hypothesis.internal.conjecture.providers import HypothesisProvider

    name = "_maybe_draw_constant"
    with _lock:
        _replaced.append(vars(HypothesisProvider).get(name))
        if _replaced[0] is not None:
            setattr(HypothesisProvider, name, lambda *_, **__: None)
    try:
        yield
    finally:
        with _lock:
            found = _replaced.pop()
            # Threads may draw at the same time: the last one puts back what the first one found.
            if found is not None and not _replaced:
                setattr(HypothesisProvider, name, found)
