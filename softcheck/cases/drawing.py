"""Hypothesis without its constants, so that a seed draws the same whatever else is imported. Imports no torch."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_constants() -> Iterator[None]:
    """Keeps hypothesis from drawing constants, which it reads from every imported module of the working folder.

    With constants the same seed would give other rows in another program. The patched name is private; if hypothesis
    has no such name, nothing is changed.
    """
    from hypothesis.internal.conjecture.providers import HypothesisProvider

    name = "_maybe_draw_constant"
    before = vars(HypothesisProvider).get(name)
    if before is not None:
        setattr(HypothesisProvider, name, lambda *_, **__: None)
    try:
        yield
    finally:
        if before is not None:
            setattr(HypothesisProvider, name, before)
