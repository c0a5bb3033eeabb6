"""The time that a first call spends in imports and compilers is told from what it spends otherwise."""

import mmap
import threading
import time
import types

import pytest

from softcheck.calling import activity


def naps(name):
    """A function of a module of this name that takes half a second."""
    module = types.ModuleType(name)
    exec("import time\ndef nap():\n    time.sleep(0.5)\n", module.__dict__)
    return module.nap


@pytest.fixture
def memory(monkeypatch):
    shown = activity._ShownPhase()
    shown.memory, shown.is_watched = mmap.mmap(-1, activity.SIZE), True
    monkeypatch.setattr(activity, "_shown", shown)
    return shown.memory


def most_seen(memory, function):
    """Most seconds that another thread saw while the function was called."""
    seen, is_over = [0.0], threading.Event()

    def look():
        while not is_over.wait(0.02):
            seen.append(activity.spent_in(memory))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        with activity.calling():
            function()
    finally:
        is_over.set()
        looking.join()
    return max(seen)


def test_a_first_calls_own_seconds_are_counted(memory):
    activity.expect_a_first_call()
    assert 0.2 < most_seen(memory, naps("own")) < 5.0
    assert activity.spent_in(memory) == 0.0, "the next import must not be charged with it"


@pytest.mark.parametrize("name", ["torch._inductor.compile_fx", "triton.compiler.compiler", "importlib._bootstrap"])
def test_seconds_of_imports_and_compilers_are_not(memory, name):
    activity.expect_a_first_call()
    assert most_seen(memory, naps(name)) < 0.2


def test_only_a_first_call_is_watched(memory):
    assert most_seen(memory, naps("own")) == 0.0


def test_no_thread_outlives_the_call(memory):
    before = threading.active_count()
    activity.expect_a_first_call()
    with activity.calling():
        time.sleep(0.15)
    assert threading.active_count() == before
