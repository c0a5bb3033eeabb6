"""Results of calls, copied to pinned memory asynchronously, so that they survive a device that is lost later."""

import ctypes
from functools import cache
from typing import NamedTuple

import torch

MOST = 32
"""Most calls whose results are kept at a time: larger groups would save few waits."""

ECHO_BYTES = 1 << 15
"""Bytes of an output up to which it is copied to the host as a whole. Checking it there takes less time than many
kernels on a device, each of which waits for its turn among other processes' kernels."""

_PENDING, _ECHOED = 2, 3


class Flags(NamedTuple):
    """Checks that a device has made on one call."""

    unchanged: bool = False
    """True if the call left its input unchanged."""
    passes: bool = False
    """True if all rows of the output surely keep their bounds."""


class Echo(NamedTuple):
    """Copies of one call's tensors. The next echo of the same number overwrites both."""

    output: torch.Tensor
    storage: torch.Tensor
    """The input's storage, of one dimension."""


class Arrivals:
    """``Flags`` or ``Echo`` of up to ``MOST`` calls.

    All instances of a process share their memory: use one at a time.
    """

    def __init__(self, device: torch.device) -> None:
        self._memory = _memory(device.type)
        self._echoed = _echoed(device)
        self._echoes: dict[int, Echo] = {}
        self._memory.flags.fill_(_PENDING)

    def send(self, index: int, flags: torch.Tensor) -> None:
        """Queues a copy of flags, bool of shape [2] on the device, behind all work on the current stream."""
        self._memory.flags[index].copy_(flags.view(torch.uint8), non_blocking=True)

    def send_echo(self, index: int, output: torch.Tensor, storage: torch.Tensor) -> None:
        """Queues copies of an output and its input's storage in the same way, each of at most ECHO_BYTES."""
        places = self._memory.echoes[index]
        self._echoes[index] = Echo(
            *(_sent(place, tensor) for place, tensor in zip(places, (output, storage), strict=True))
        )
        self._memory.flags[index].copy_(self._echoed, non_blocking=True)

    def take(self, count: int) -> list[Flags | Echo | None]:
        """Returns what arrived of the first ``count`` calls, None for a call of which nothing arrived.

        Does not use the device.
        """
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
    """Queues a tensor's copy into the first bytes of ``place`` and returns the copy."""
    copied = place[: tensor.numel() * tensor.element_size()].view(tensor.dtype).view(tensor.shape)
    return copied.copy_(tensor, non_blocking=True)


@cache
def _memory(device_type: str) -> _Memory:
    """Allocates pinned memory for a GPU, since copies to other memory are synchronous."""
    pinned = device_type == "cuda"
    memory = _Memory(
        torch.empty(MOST, 2, dtype=torch.uint8, pin_memory=pinned),
        torch.empty(MOST, 2, ECHO_BYTES, dtype=torch.uint8, pin_memory=pinned),
    )
    # The memory is never freed, not even at exit. When pinned memory is freed, torch asks the device whether its copies
    # are done, and aborts the process if that device is lost.
    for tensor in memory:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
    return memory


@cache
def _echoed(device: torch.device) -> torch.Tensor:
    return torch.full((2,), _ECHOED, dtype=torch.uint8, device=device)
