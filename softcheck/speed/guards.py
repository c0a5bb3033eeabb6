"""Disturbances of a timing that show from outside: throttling, clock changes, other processes. No torch.

``nvidia-smi``, which comes with the driver, tells of them while the rounds run; where it does not, one alarm says that nothing was
watched.
"""

import os
import subprocess
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from softcheck.speed.samples import Alarm

CLOCK_TOLERANCE = 0.03

_THROTTLING = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "temperature, by software",
    0x40: "temperature, by hardware",
    0x80: "power brake",
}
"""Bits of the active clocks' event reasons that mean less than the clock that was asked for. Source: nvml.h."""

_EVERY_MS = 50


class ClockReading(NamedTuple):
    """The device at one moment: the multiprocessors' clock in MHz, and the reasons that hold it down."""

    clock_mhz: int
    reasons: int


class Watch:
    """Reads the clock of one device until it is closed."""

    def __init__(self, uuid: str) -> None:
        """Begins to read the CUDA device with this UUID (with or without ``GPU-``)."""
        self._device = ["nvidia-smi", "-i", f"GPU-{uuid.removeprefix('GPU-')}", "--format=csv,noheader,nounits"]
        query = ["--query-gpu=clocks.sm,clocks_throttle_reasons.active", f"--loop-ms={_EVERY_MS}"]
        self._process: subprocess.Popen[str] | None = None
        self._why_not = ""
        try:
            self._process = subprocess.Popen(  # noqa: S603 - a fixed command
                [*self._device, *query], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        except OSError as error:
            self._why_not = str(error)

    def close(self) -> tuple[int | None, list[Alarm]]:
        """Returns the median clock, and alarms for what was seen and for what could not be watched."""
        if self._process is None:
            return None, alarms([], None, self._why_not)
        self._process.terminate()
        lines = self._process.communicate()[0].splitlines()
        told = subprocess.run(  # noqa: S603 - a fixed command
            [*self._device, "--query-compute-apps=pid"], capture_output=True, text=True, check=False
        )
        pids = [int(word) for word in told.stdout.split() if word.isdecimal()]
        found = readings(lines)
        clock = round(median(each.clock_mhz for each in found)) if found else None
        return clock, alarms(found, strangers(pids, os.getpid()), "" if found else f"nvidia-smi: {' '.join(lines)}")


def readings(lines: Sequence[str]) -> list[ClockReading]:
    """The whole lines among those of ``nvidia-smi``, whose last one may be cut."""
    found = []
    for line in lines:
        clock, _, reasons = line.partition(", ")
        if clock.isdecimal() and reasons.startswith("0x") and len(reasons) == len("0x") + 16:
            found.append(ClockReading(int(clock), int(reasons, 16)))
    return found


def alarms(seen: Sequence[ClockReading], others: int | None, why_not: str = "") -> list[Alarm]:
    """Returns the alarms for readings taken while kernels ran.

    ``others`` are processes on the device that are not softcheck's, None if that can't be told; ``why_not`` says why nothing was watched.
    """
    found = []
    held = [bit for bit in _THROTTLING if any(each.reasons & bit for each in seen)]
    if held:
        share = sum(any(each.reasons & bit for bit in held) for each in seen) / len(seen)
        reasons = ", ".join(_THROTTLING[bit] for bit in held)
        message = f"the device was throttled in {share:.0%} of the readings ({reasons}); let it cool, or lock its clocks below the limit"
        found.append(Alarm("throttled", message))
    clocks = [each.clock_mhz for each in seen]
    if clocks and max(clocks) - min(clocks) > CLOCK_TOLERANCE * max(clocks):
        message = (
            f"the clock moved between {min(clocks)} and {max(clocks)} MHz while timing; ratios within rounds hold, "
            "seconds may not: measure again"
        )
        found.append(Alarm("clock_changed", message))
    if others:
        message = f"{others} other processes hold the device; end them and measure again"
        found.append(Alarm("other_processes", message))
    if why_not:
        found.append(Alarm("unwatched", f"throttling and other processes were not watched: {why_not}"))
    return found


def strangers(pids: Sequence[int], own: int) -> int | None:
    """Counts the device's processes other than this one; None if the list is of another pid namespace."""
    if own in pids:
        return len(pids) - 1
    # Inside a container nothing may be listed, or the host's numbers; then only one process more than ours is telling.
    return None if len(pids) <= 1 else len(pids) - 1
