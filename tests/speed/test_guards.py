"""Alarms about a timing from snapshots of the device."""

import pytest

from softcheck.speed.guards import ClockReading, Watch, alarms, readings, strangers

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


def test_lines_of_nvidia_smi_are_read_but_for_one_that_was_cut():
    lines = ["1980, 0x0000000000000000", "1755, 0x0000000000000004", "17", "1755, 0x00"]
    assert readings(lines) == [ClockReading(1980, 0), ClockReading(1755, POWER_CAP)]
    assert readings(["Unable to determine the device handle for GPU"]) == []


def test_without_nvidia_smi_an_alarm_says_that_nothing_was_watched(monkeypatch):
    monkeypatch.setenv("PATH", "")
    clock, found = Watch("1234").close()
    assert clock is None
    assert kinds(found) == ["unwatched"]
