"""The first Ctrl-C is noted, the second one ends the program, and what was set before comes back."""

import signal

import pytest

from softcheck.run.interruption import Interruption


@pytest.fixture(autouse=True)
def handler():
    """As in a program that a terminal started, whatever this suite inherited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_first_is_noted_and_said_and_the_second_is_raised(capsys):
    interruption = Interruption("ending\n")
    with interruption.watching():
        signal.raise_signal(signal.SIGINT)
        assert interruption.is_set
        assert capsys.readouterr().err == "ending\n"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_one_nothing_is_set_and_the_next_is_raised_as_ever():
    interruption = Interruption()
    with interruption.watching():
        pass
    assert not interruption.is_set
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_where_it_is_ignored_it_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interruption = Interruption()
    with interruption.watching():
        signal.raise_signal(signal.SIGINT)
    assert not interruption.is_set
