"""What calls leave on the host as they finish, without anyone waiting, there even where the device is lost later."""

import ctypes
from functools import cache
from typing import NamedTuple

import torch

MOST = 32
"""Calls of which something is kept at a time: fewer waits beyond it would save little."""

ECHO_BYTES = 1 << 15
"""Of an output, up to which it is brought to the host as it is: looking at it there takes less time than the many kernels on a
device would, each of which takes its turn among other processes'."""

_PENDING, _ECHOED = 2, 3


class Flags(NamedTuple):
    """What a device says of one call."""

    unchanged: bool = False
    """Whether it left its input as it was."""
    passes: bool = False
    """Whether all rows of its output surely keep their bounds."""


class Echo(NamedTuple):
    """What one call left in memory; both lie where the next echo of the same number will."""

    output: torch.Tensor
    storage: torch.Tensor
    """Of the input, of one dimension."""


class Arrivals:
    """``Flags`` or ``Echo`` of each of up to ``MOST`` calls. One at a time in a process, since they share their memory."""

    def __init__(self, device: torch.device) -> None:
        self._memory = _memory(device.type)
        self._echoed = _echoed(device)
        self._echoes: dict[int, Echo] = {}
        self._memory.flags.fill_(_PENDING)

    def send(self, index: int, flags: torch.Tensor) -> None:
        """Has flags, bool of shape [2] on the device, copied once all that is queued on the current stream is done."""
        self._memory.flags[index].copy_(flags.view(torch.uint8), non_blocking=True)

    def send_echo(self, index: int, output: torch.Tensor, storage: torch.Tensor) -> None:
        """Has an output and its input's storage copied in the same way, each of at most ECHO_BYTES."""
        places = self._memory.echoes[index]
        self._echoes[index] = Echo(
            *(_sent(place, tensor) for place, tensor in zip(places, (output, storage), strict=True))
        )
        self._memory.flags[index].copy_(self._echoed, non_blocking=True)

    def take(self, count: int) -> list[Flags | Echo | None]:
        """What the first calls left, None where it has not arrived. Asks the device nothing."""
        arrived = self._memory.flags[:count].tolist()
        self._memory.flags.fill_(_PENDING)
        echoes, self._echoes = self._echoes, {}
        return [
            None if _PENDING in flags else echoes[index] if _ECHOED in flags else Flags(*map(bool, flags))
            for index, flags in enumerate(arrived)
        ]


class _Memory(NamedTuple):
    flags: torch.Tensor
    """uint8 [MOST, 2]."""
    echoes: torch.Tensor
    """uint8 [MOST, 2, ECHO_BYTES]."""


def _sent(place: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Where a tensor's copy will be, in the first bytes of a place, once the device has come to it."""
    copied = place[: tensor.numel() * tensor.element_size()].view(tensor.dtype).view(tensor.shape)
    return copied.copy_(tensor, non_blocking=True)


@cache
def _memory(device_type: str) -> _Memory:
    """Page-locked for a GPU, whose copies to any other memory are waited for."""
    pinned = device_type == "cuda"
    memory = _Memory(
        torch.empty(MOST, 2, dtype=torch.uint8, pin_memory=pinned),
        torch.empty(MOST, 2, ECHO_BYTES, dtype=torch.uint8, pin_memory=pinned),
    )
    # Never freed, not even at exit: torch asks the device whether its copies to such memory are done when it is, and
    # ends the process with an abort where that device is lost.
    for tensor in memory:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
    return memory


@cache
def _echoed(device: torch.device) -> torch.Tensor:
    return torch.full((2,), _ECHOED, dtype=torch.uint8, device=device)
