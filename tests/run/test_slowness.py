import time

import pytest

from softcheck.probes.base import Setting
from softcheck.run import trials
from softcheck.variants.declaration import Declaration


@pytest.mark.parametrize(("times", "expected"), [(0.5, 1.0), (1.0, 1.0), (2.5, 2.5), (50.0, 4.0)])
def test_only_slower_machines_count_and_none_without_end(monkeypatch, times, expected):
    monkeypatch.setattr(trials, "_seconds", lambda: times * trials._USUAL_SECONDS)
    assert trials.slowness() == pytest.approx(expected)


def test_the_clock_of_limits_counts_work_as_on_a_usual_machine():
    slow = Setting(declaration=Declaration(), dtype="float32", backend="interpreter", slowness=4.0)
    usual = Setting(declaration=Declaration(), dtype="float32", backend="interpreter")
    begun, begun_of_slow = usual.now(), slow.now()
    while usual.now() - begun < 0.05:
        pass
    assert (slow.now() - begun_of_slow) * 4 == pytest.approx(usual.now() - begun, rel=0.2)


def test_waiting_does_not_count_without_a_gpu():
    usual = Setting(declaration=Declaration(), dtype="float32", backend="interpreter")
    begun = usual.now()
    time.sleep(0.1)
    assert usual.now() - begun < 0.05
