"""Global state is put back as it was, and what can't be put back says so."""

import functools
import sys
import sysconfig
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from softcheck.calling import state
from softcheck.calling.settings import GlobalSetting
from softcheck.calling.state import Snapshot


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(state.Snapshot, "is_any_lost", False)


def test_what_nobody_changed_is_not_named():
    torch.rand(3)
    assert Snapshot().restore() == []


def test_names_that_were_replaced_are_put_back():
    before, softmax = Snapshot(), torch.softmax
    torch.softmax = lambda x, dim: x
    assert before.restore() == ["torch.softmax"]
    assert torch.softmax is softmax


def test_random_numbers_that_were_drawn_are_no_change_but_a_new_seed_is():
    before = Snapshot()
    seed = torch.initial_seed()
    torch.rand(3)
    torch.manual_seed(seed + 1)
    assert before.restore() == ["the random seed"]
    assert torch.initial_seed() == seed


def test_deterministic_mode_is_put_back_for_inductor_too():
    from torch._inductor import config

    assert not config.deterministic
    torch.set_deterministic_debug_mode("warn")
    try:
        for mode in (False, True):
            before = Snapshot()
            torch.use_deterministic_algorithms(mode)
            (changed,) = before.restore()
            assert changed.startswith("deterministic mode")
            assert (torch.get_deterministic_debug_mode(), config.deterministic) == (1, False)
        before = Snapshot()
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        assert config.deterministic, "torch.compile sets it on its way out"
        assert before.restore() == []
        assert not config.deterministic
    finally:
        torch.set_deterministic_debug_mode("default")
        config.deterministic = False


def test_device_that_answers_nothing_more_loses_the_process_and_raises_nothing(monkeypatch):
    answers = iter([0])

    def read():
        for answer in answers:
            return answer
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(state, "_SETTINGS", (GlobalSetting("the current device", read, print),))
    before = Snapshot()
    assert before.restore() == []
    assert not before.is_restored
    assert state.is_lost()


@pytest.mark.parametrize("owner", ["backends", "backends.cuda.matmul", "backends.mkldnn.matmul"])
def test_precision_that_the_older_function_cannot_tell_is_put_back(owner):
    found = torch
    for part in owner.split("."):
        found = getattr(found, part)
    was = found.fp32_precision
    before = Snapshot()
    found.fp32_precision = "tf32" if "mkldnn" not in owner else "bf16"
    (changed,) = before.restore()
    assert changed.startswith("matmul precision (")
    assert "fp32_precision from " in changed
    assert before.is_restored
    assert found.fp32_precision == was
    assert torch.get_float32_matmul_precision() == "highest"
    assert Snapshot().restore() == []


@pytest.mark.parametrize(("place", "named"), [("purelib", False), ("stdlib", False), ("elsewhere", True)])
def test_thread_of_an_installed_library_is_its_own_business(monkeypatch, tmp_path, place, named):
    folder = tmp_path if place == "elsewhere" else sysconfig.get_path(place)
    module = types.ModuleType("lazy_library")
    module.__file__ = f"{folder}/lazy_library.py"
    monkeypatch.setitem(sys.modules, "lazy_library", module)
    done = threading.Event()

    def wait():
        done.wait(60)

    wait.__module__ = "lazy_library"
    before = Snapshot()
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    try:
        assert any("running threads" in changed for changed in before.restore()) == named
        assert before.is_restored != named
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(
    "started",
    [
        lambda wait: threading.Thread(target=wait, daemon=True),
        lambda wait: threading.Thread(target=functools.partial(functools.partial(wait), 60), daemon=True),
        lambda wait: threading.Timer(0, wait),
    ],
    ids=["function", "partial", "timer"],
)
def test_thread_of_ones_own_is_named_however_it_is_started(started):
    done = threading.Event()

    def wait(seconds=60):
        done.wait(seconds)

    before = Snapshot()
    thread = started(wait)
    thread.start()
    try:
        assert any("running threads" in changed for changed in before.restore())
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("is_idle", [True, False])
def test_task_that_goes_on_in_a_pool_is_named_and_the_pool_itself_is_not(is_idle):
    """The pool's threads run the standard library's code; only what they are at tells whose work it is."""
    done = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        before = Snapshot()
        task = pool.submit(lambda: is_idle or done.wait(60))
        if is_idle:
            task.result(60)
        try:
            assert any("running threads" in changed for changed in before.restore()) != is_idle
            assert before.is_restored == is_idle
        finally:
            done.set()


def test_task_that_went_on_before_is_nobodys_change():
    done = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: done.wait(60))
        try:
            assert Snapshot().restore() == []
        finally:
            done.set()
