"""Flags that calls leave on the host as they finish, without anyone waiting, there even where the device is lost later."""

import ctypes
from functools import cache
from typing import NamedTuple

import torch

MOST = 32
"""Calls of which flags are kept at a time: fewer waits beyond it would save little."""

_PENDING = 2


class Flags(NamedTuple):
    """What a device says of one call."""

    unchanged: bool = False
    """Whether it left its input as it was."""
    passes: bool = False
    """Whether all rows of its output surely keep their bounds."""


class Arrivals:
    """``Flags`` of each of up to ``MOST`` calls. One at a time in a process, since they share their memory."""

    def __init__(self, device: torch.device) -> None:
        self._flags = _memory(device.type)
        self._flags.fill_(_PENDING)

    def send(self, index: int, flags: torch.Tensor) -> None:
        """Has flags, bool of shape [2] on the device, copied once all that is queued on the current stream is done."""
        self._flags[index].copy_(flags.view(torch.uint8), non_blocking=True)

    def take(self, count: int) -> list[Flags | None]:
        """The first flags, None where they have not arrived; then none have. Asks the device nothing."""
        arrived = self._flags[:count].tolist()
        self._flags.fill_(_PENDING)
        return [None if _PENDING in flags else Flags(*map(bool, flags)) for flags in arrived]


@cache
def _memory(device_type: str) -> torch.Tensor:
    """Page-locked for a GPU, whose copies to any other memory are waited for."""
    flags = torch.empty(MOST, 2, dtype=torch.uint8, pin_memory=device_type == "cuda")
    # Never freed, not even at exit: torch asks the device whether its copies to such memory are done when it is, and
    # ends the process with an abort where that device is lost.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(flags))
    return flags
