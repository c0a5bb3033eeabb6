"""Rounding and the flushing of subnormals: read, put back, and kept from the judge, on known machines; unknown ones are left alone."""

import ctypes
import platform
import threading

import numpy as np
import pytest
import torch

from softcheck.calling.float_environment import Registers, access, standard

UPWARD = {"x86_64": 0x800, "aarch64": 0x400000}.get(platform.machine())
"""C's FE_UPWARD."""
MATH = ctypes.CDLL("libm.so.6") if platform.system() == "Linux" else ctypes.CDLL(None)


def flush():
    assert torch.set_flush_denormal(True)


def round_up():
    assert MATH.fesetround(UPWARD) == 0


def flushes():
    return bool((torch.tensor([1e-40]) * 1 == 0).all())


def rounds_up():
    one, tiny = np.array([1.0, 2.0**-80])
    return bool(one + tiny > 1)


@pytest.fixture(autouse=True)
def begin_and_end_in_the_standard_environment():
    assert access().read() == access().standard
    yield
    access().write(access().standard)


@pytest.mark.parametrize(("change", "shows"), [(flush, flushes), (round_up, rounds_up)])
def test_change_shows_and_is_put_back(change, shows):
    way = access()
    before = way.read()
    assert before == way.standard
    change()
    assert shows()
    assert way.read() != before
    assert way.describe(way.read()) != way.describe(before)
    way.write(before)
    assert not shows()
    assert way.read() == before


def test_flags_of_exceptions_that_occurred_are_no_change():
    before = access().read()
    with np.errstate(all="ignore"):
        np.divide([1.0, 0.0, 1e-308, 1e308], [0.0, 0.0, 1e20, 1e-20])
    assert MATH.fetestexcept(-1 & 0x1F) != 0
    assert access().read() == before


@pytest.mark.skipif(platform.machine() != "x86_64", reason="traps are optional on Arm")
def test_trap_that_was_asked_for_is_taken_away():
    before = access().read()
    assert MATH.feenableexcept(4) >= 0  # FE_DIVBYZERO
    assert access().read() != before
    access().write(before)
    assert MATH.fegetexcept() == 0


@pytest.mark.parametrize(("change", "shows"), [(flush, flushes), (round_up, rounds_up)])
def test_block_computes_in_the_standard_environment_and_leaves_the_threads_own_behind(change, shows):
    change()

    def compute():
        with standard():
            assert not shows()
            raise KeyError

    with pytest.raises(KeyError):
        compute()
    assert shows()


def test_threads_have_environments_of_their_own():
    seen = []
    thread = threading.Thread(target=lambda: (flush(), seen.append(access().read())))
    thread.start()
    thread.join()
    assert seen != [access().standard]
    assert access().read() == access().standard


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "riscv64")])
def test_machine_whose_registers_are_unknown_is_not_watched(monkeypatch, system, machine):
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    unknown = Registers()
    assert unknown.read() == unknown.standard == ()
    unknown.write(())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the bit without effect is one of x86-64")
def test_state_that_the_machine_does_not_take_raises_with_both():
    word, mxcsr = access().standard
    with pytest.raises(RuntimeError, match=r"x87 control word 0x33f, .*, expected x87 control word 0x133f"):
        access().write((word | 0x1000, mxcsr))
