"""An interpreted launch that would take minutes ends soon; one that is only slow goes on."""

from types import SimpleNamespace

import pytest
from triton.runtime.interpreter import InterpreterBuilder

from softcheck.errors import UninterpretableError
from softcheck.toolchain import interpreter


@pytest.fixture
def launch(monkeypatch):
    """``launch(programs, seconds)``: how many programs of so many seconds ran."""

    class Builder:
        """The part of Triton's builder that launches use. The real one may have been corrected in this process."""

        def set_grid_dim(self, *size):
            self.grid_dim = size

        def set_grid_idx(self, *place):
            self.grid_idx = place

    interpreter.end_long_launches(Builder)
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(interpreter, "time", SimpleNamespace(process_time=lambda: clock.now))
    builder, ran = Builder(), []

    def run(programs, seconds):
        ran.clear()
        builder.set_grid_dim(programs, 1, 1)
        for place in range(programs):
            builder.set_grid_idx(place, 0, 0)
            assert builder.grid_idx == (place, 0, 0)
            ran.append(place)
            clock.now += seconds
        return len(ran)

    run.ran = ran
    return run


def test_a_launch_of_minutes_is_ended_and_says_how_long_it_would_take(launch):
    with pytest.raises(
        UninterpretableError, match="1024 programs of one launch would take 307 s here; judge it on a GPU"
    ):
        launch(1024, 0.3)
    assert len(launch.ran) * 0.3 < interpreter.SURE_AFTER + 0.4


@pytest.mark.parametrize(("programs", "seconds"), [(100, 0.3), (1, 300.0), (1000, 0.001), (3, 13.0), (0, 1.0)])
def test_a_launch_that_ends_in_time_goes_on(launch, programs, seconds):
    assert launch(programs, seconds) == programs


def test_each_launch_has_a_time_of_its_own(launch):
    assert [launch(10, 3.0) for _ in range(5)] == [10] * 5


def test_tritons_builder_has_what_is_timed():
    assert {"set_grid_dim", "set_grid_idx"} <= set(vars(InterpreterBuilder))
