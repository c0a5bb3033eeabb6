"""Draws without hypothesis' constants, in several threads at once."""

from contextlib import ExitStack

from hypothesis.internal.conjecture.providers import HypothesisProvider

from softcheck.cases.drawing import no_constants

DRAWN = "_maybe_draw_constant"


def test_constants_come_back_with_the_last_of_several_threads():
    before = vars(HypothesisProvider)[DRAWN]
    first, second = ExitStack(), ExitStack()
    first.enter_context(no_constants())
    second.enter_context(no_constants())
    first.close()
    assert vars(HypothesisProvider)[DRAWN] is not before
    second.close()
    assert vars(HypothesisProvider)[DRAWN] is before
