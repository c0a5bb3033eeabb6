"""Disturbances of a timing that show from outside: throttling, clock changes, other processes. No torch.

NVML is queried through nvidia-ml-py (the ``nvml`` extra) if it is installed; otherwise one alarm says that nothing was
watched.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from softcheck.speed.samples import Alarm

CLOCK_TOLERANCE = 0.03

_THROTTLING = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "temperature, by software",
    0x40: "temperature, by hardware",
    0x80: "power brake",
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons that mean less than the clock that was asked for. Source: nvml.h."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The device at one moment: the multiprocessors' clock in MHz, and the reasons that hold it down."""

    clock_mhz: int
    reasons: int


def alarms(snapshots: Sequence[ClockReading], strangers: int | None) -> list[Alarm]:
    """Returns the alarms for a series of snapshots taken while kernels ran.

    ``strangers`` are processes on the device that are not softcheck's; None if that can't be told.
    """
    found = []
    held = [bit for bit in _THROTTLING if any(s.reasons & bit for s in snapshots)]
    if held:
        share = sum(any(s.reasons & bit for bit in held) for s in snapshots) / len(snapshots)
        found.append(
            Alarm(
                "throttled",
                f"the device was throttled in {share:.0%} of the rounds ({', '.join(_THROTTLING[b] for b in held)}); "
                "let it cool, or lock its clocks below the limit",
            )
        )
    clocks = [s.clock_mhz for s in snapshots]
    if clocks and max(clocks) - min(clocks) > CLOCK_TOLERANCE * max(clocks):
        found.append(
            Alarm(
                "clock_changed",
                f"the clock moved between {min(clocks)} and {max(clocks)} MHz while timing; ratios within rounds hold, "
                "seconds may not: measure again",
            )
        )
    if strangers:
        found.append(
            Alarm("other_processes", f"{strangers} other processes hold the device; end them and measure again")
        )
    return found


def strangers(pids: Sequence[int], own: int) -> int | None:
    """Counts the device's processes other than this one; None if the list is of another pid namespace."""
    if own in pids:
        return len(pids) - 1
    # Inside a container NVML may list nothing, or the host's numbers; then only one process more than ours is telling.
    return None if len(pids) <= 1 else len(pids) - 1


class Watch:
    """Takes snapshots of one device between rounds. A snapshot that can't be taken is left out, with an alarm."""

    def __init__(self, handle: Any | None, nvml: Any | None, why_not: str | None) -> None:
        self._handle = handle
        self._nvml = nvml
        self.why_not = why_not
        self.snapshots: list[ClockReading] = []

    @classmethod
    def open(cls, uuid: str | None) -> "Watch":
        """Opens a watch on the CUDA device with this UUID (with or without ``GPU-``).

        If that is impossible, the watch holds the reason.
        """
        try:
            import pynvml
        except ImportError:
            return cls(None, None, "nvidia-ml-py is not installed: pip install 'softcheck[nvml]'")
        try:
            pynvml.nvmlInit()
            name = f"GPU-{str(uuid).removeprefix('GPU-')}"
            return cls(pynvml.nvmlDeviceGetHandleByUUID(name), pynvml, None)
        except pynvml.NVMLError as error:
            return cls(None, None, f"NVML: {error}")

    def look(self) -> None:
        """Takes one snapshot, some tens of microseconds."""
        if self._nvml is None:
            return
        try:
            clock = self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM)
            reasons = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)
        except self._nvml.NVMLError as error:
            self.why_not = f"NVML: {error}"
            self._nvml = None
            return
        self.snapshots.append(ClockReading(int(clock), int(reasons)))

    def clock_mhz(self) -> int | None:
        """Median clock over the snapshots."""
        return round(median(s.clock_mhz for s in self.snapshots)) if self.snapshots else None

    def close(self) -> list[Alarm]:
        """Returns alarms for the disturbances seen, and for quantities that could not be watched."""
        others = self._strangers()
        found = alarms(self.snapshots, others)
        if self.why_not is not None:
            found.append(Alarm("unwatched", f"throttling and other processes were not watched: {self.why_not}"))
        return found

    def _strangers(self) -> int | None:
        if self._nvml is None:
            return None
        try:
            running = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        except self._nvml.NVMLError:
            return None
        return strangers([process.pid for process in running], os.getpid())
