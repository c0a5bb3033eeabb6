"""Alarms about a timing from snapshots of the device."""

import sys
from types import SimpleNamespace

import pytest

from softcheck.speed.guards import ClockReading, Watch, alarms, strangers

IDLE_BIT, POWER_CAP, THERMAL = 0x01, 0x04, 0x40


def kinds(found):
    return [alarm.kind for alarm in found]


def test_steady_device_raises_no_alarm():
    assert alarms([ClockReading(1980, 0), ClockReading(1965, IDLE_BIT)], 0) == []


def test_throttling_names_the_reasons_and_the_share():
    (alarm,) = alarms([ClockReading(1980, 0), ClockReading(1980, POWER_CAP | THERMAL)], 0)
    assert alarm.kind == "throttled"
    assert "50%" in alarm.message
    assert "power cap" in alarm.message
    assert "temperature" in alarm.message


def test_clock_that_moves_is_seen():
    assert kinds(alarms([ClockReading(1980, 0), ClockReading(1755, 0)], 0)) == ["clock_changed"]


def test_other_processes_are_counted():
    assert kinds(alarms([], 2)) == ["other_processes"]
    assert alarms([], None) == []


@pytest.mark.parametrize(("pids", "expected"), [([7], 0), ([7, 8, 9], 2), ([], None), ([100], None), ([100, 101], 1)])
def test_strangers_in_this_pid_namespace_and_in_another(pids, expected):
    assert strangers(pids, own=7) == expected


class FakeNvmlError(Exception):
    pass


def fake_nvml(*, fails=False):
    """As much of pynvml as a watch uses."""

    def clock(handle, which):
        if fails:
            raise FakeNvmlError("not supported")
        return 1500

    def by_uuid(uuid):
        assert uuid == "GPU-1234"
        return object()

    return SimpleNamespace(
        NVMLError=FakeNvmlError,
        NVML_CLOCK_SM=1,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=by_uuid,
        nvmlDeviceGetClockInfo=clock,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: POWER_CAP,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [SimpleNamespace(pid=-1), SimpleNamespace(pid=-2)],
    )


def test_watch_looks_through_nvml(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    watch = Watch.open("1234")
    watch.look()
    assert watch.clock_mhz() == 1500
    assert kinds(watch.close()) == ["throttled", "other_processes"]


def test_watch_without_nvml_says_that_nobody_watched(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    watch = Watch.open("1234")
    watch.look()
    (alarm,) = watch.close()
    assert alarm.kind == "unwatched"
    assert "softcheck[nvml]" in alarm.message


def test_watch_that_nvml_fails_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(fails=True))
    watch = Watch.open("GPU-1234")
    watch.look()
    watch.look()
    assert "not supported" in watch.close()[0].message
