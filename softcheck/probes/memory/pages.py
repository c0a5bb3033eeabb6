"""Tensors that begin or end where mapped memory does, so that an access beyond them faults.

On the CPU pages without any right lie around the tensor's. On a GPU the driver's virtual memory management maps physical
memory into the middle of a larger range of addresses (CUDA driver API, section "Virtual Memory Management"): what lies
around it has no memory behind it.
"""

import ctypes
import mmap
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import torch

_PINNED, _ON_DEVICE, _READ_AND_WRITE = 1, 1, 3
"""CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE and CU_MEM_ACCESS_FLAGS_PROT_READWRITE."""

_NO_RIGHTS = 0
"""PROT_NONE, which Python's mmap has no name for."""


class UnmappedError(Exception):
    """Memory of this kind can't be had here; the message says why."""


def bytes_at_an_edge(size: int, device: torch.device, *, at_end: bool) -> torch.Tensor:
    """Returns ``size`` bytes, uint8 [size], next to addresses without memory: behind them ``at_end``, else before them.

    Raises UnmappedError if the system or the driver gives no such memory.
    """
    return (_on_gpu if device.type == "cuda" else _on_cpu)(size, device, at_end=at_end)


def _on_cpu(size: int, _: torch.device, *, at_end: bool) -> torch.Tensor:
    if not sys.platform.startswith("linux"):
        raise UnmappedError(f"pages without rights are asked for on Linux alone; this is {sys.platform}")
    page = mmap.PAGESIZE
    body = -(-size // page) * page
    buffer = mmap.mmap(-1, body + 2 * page)
    first = torch.frombuffer(buffer, dtype=torch.uint8).data_ptr()
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for place in (first, first + page + body):
        if protect(ctypes.c_void_p(place), ctypes.c_size_t(page), _NO_RIGHTS):
            raise UnmappedError(f"mprotect failed with errno {ctypes.get_errno()}")
    return torch.frombuffer(buffer, dtype=torch.uint8, count=size, offset=page + (body - size if at_end else 0))


class _MappedRange:
    """A range of addresses, of which the middle alone has memory; given back when nothing refers to it."""

    def __init__(self, size: int, device: int, *, at_end: bool) -> None:
        self._undo: list[Callable[[], object]] = []
        driver, none, nothing = _driver(), ctypes.c_ulonglong(0), ctypes.c_size_t(0)
        step, address, memory = ctypes.c_size_t(), ctypes.c_ulonglong(), ctypes.c_ulonglong()
        # The driver's CUmemAllocationProp and CUmemAccessDesc: a type, no handles, a place; a place and rights.
        wanted = struct.pack("iiii16x", _PINNED, 0, _ON_DEVICE, device)
        access = struct.pack("iii", _ON_DEVICE, device, _READ_AND_WRITE)
        self._do("cuMemGetAllocationGranularity", ctypes.byref(step), wanted, 0)
        page = step.value
        body = ctypes.c_size_t(-(-size // page) * page)
        around = ctypes.c_size_t(body.value + 2 * page)
        self._do("cuMemAddressReserve", ctypes.byref(address), around, nothing, none, none)
        self._undo.append(lambda: driver.cuMemAddressFree(address, around))
        self._do("cuMemCreate", ctypes.byref(memory), body, wanted, none)
        self._undo.append(lambda: driver.cuMemRelease(memory))
        begin = ctypes.c_ulonglong(address.value + page)
        self._do("cuMemMap", begin, body, nothing, memory, none)
        self._undo.append(lambda: driver.cuMemUnmap(begin, body))
        self._do("cuMemSetAccess", begin, body, access, ctypes.c_size_t(1))
        first = begin.value + (body.value - size if at_end else 0)
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (first, False), "version": 3}

    @staticmethod
    def _do(name: str, *arguments: Any) -> None:
        result = getattr(_driver(), name)(*arguments)
        if result:
            raise UnmappedError(f"{name} gave error {result} of the CUDA driver")

    def __del__(self) -> None:
        # Unlike torch's own memory this may not be given back before the kernels that read it have ended.
        with suppress(RuntimeError):
            torch.cuda.synchronize()
        for undo in reversed(self._undo):
            undo()


@cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise UnmappedError(f"the CUDA driver's library can't be loaded: {error}") from None


def _on_gpu(size: int, device: torch.device, *, at_end: bool) -> torch.Tensor:
    index = torch.cuda.current_device() if device.index is None else device.index
    return torch.as_tensor(_MappedRange(size, index, at_end=at_end), device=torch.device("cuda", index))
