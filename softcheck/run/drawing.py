"""What hypothesis draws in a run: the same for the same seed, whatever else is imported. Imports no torch."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_constants() -> Iterator[None]:
    """Keeps hypothesis from drawing constants: it reads them in every module of the working folder that is imported by then.

    The same seed would else give other rows in another program. The name for that is private; without it nothing is changed.
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
