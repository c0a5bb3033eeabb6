"""Division of a scan's rows among programs, warps and lanes, and each program's share of a multiprocessor."""

from functools import lru_cache
from typing import Any

import torch
import triton

from softcheck.judge.device._jit import INTERPRETED
from softcheck.judge.device.reduction import is_nvidia

WARP_ELEMENTS = 1024
"""Elements of a wide row that one warp holds. Fewer need fewer registers, but more steps of reduction per element."""
_SHORT = 512
"""Columns below which a program has several rows."""
WARP = 32
_MOST_WARPS = 16
"""Most warps of a program: more would not find REGISTERS for each of their threads."""
NARROW = 64
"""Columns up to which the sum's bound is computed in full: in short rows few roundings can't average out."""
REGISTERS = 128
THREADS = 512
"""Registers per thread, and threads per multiprocessor that have so many."""
_MOST_REGISTERS = 255
_ELEMENTS = 32
"""Elements per thread from which a thread needs _MOST_REGISTERS."""
_STAGES = 3
"""Rows in shared memory: rows loaded ahead, and the current row."""
_OTHER_SHARED = 16384
"""Bytes of a program's shared memory for other uses than rows loaded ahead: the table of counts, and reductions."""


def tile(columns: int, warp_elements: int = WARP_ELEMENTS) -> tuple[int, int, int]:
    """Columns and rows of a program's tile, and its warps. A row that one warp can hold is not split between warps."""
    block = int(triton.next_power_of_2(columns))
    if block >= _SHORT:
        return block, 1, max(1, min(_MOST_WARPS, block // warp_elements))
    warps = 4 if block <= NARROW else 1
    per_warp = min(_SHORT // 2, 2 * WARP * block)
    return block, warps * per_warp // block, warps


def registers_per_thread(elements: int, warps: int) -> int:
    """Registers for each thread of a program: more if a thread has many elements and a multiprocessor has enough."""
    fit = WARP * warps * _MOST_REGISTERS <= REGISTERS * THREADS
    return _MOST_REGISTERS if elements >= _ELEMENTS and fit else REGISTERS


def spread(x: torch.Tensor, y: torch.Tensor, block: int, tile_rows: int, warps: int) -> tuple[int, int]:
    """Returns the lanes that share a row, and the neighbouring columns that each lane loads at once.

    Both are 1 if a program has several rows. If Triton spreads the columns in another way, the figures are the same,
    but have to be exchanged between lanes.
    """
    if tile_rows > 1:
        return 1, 1
    threads = WARP * warps
    aligned = all(t.stride(1) == 1 and t.stride(0) % 16 == 0 and t.data_ptr() % 16 == 0 for t in (x, y))
    return threads, min(16 // x.element_size(), block // threads) if aligned else 1


def stages(block: int, itemsize: int) -> int:
    """Rows of input and output that fit a program's shared memory, plus the current row; at most 3.

    The rows have ``block`` columns.
    """
    return 1 + min(_STAGES - 1, max(0, (_shared_bytes() - _OTHER_SHARED) // (2 * block * itemsize)))


def _shared_bytes() -> int:
    """Shared memory that one program may have, in bytes."""
    if INTERPRETED:
        return 1 << 30
    driver: Any = triton.runtime.driver.active
    return _shared_bytes_of(driver, driver.get_current_device())


@lru_cache(maxsize=16)
def _shared_bytes_of(driver: Any, device: int) -> int:
    """Asks the driver once, since an answer takes longer than a scan."""
    return int(driver.utils.get_device_properties(device)["max_shared_mem"])


def default_programs(device: torch.device, warps: int, threads: int) -> int:
    """Programs that fill a device with so many threads per multiprocessor."""
    if device.type != "cuda":
        return 2
    multiprocessors = int(torch.cuda.get_device_properties(device).multi_processor_count)
    return multiprocessors * max(1, threads // (32 * warps))


def registers(most: int) -> dict[str, int]:
    """Returns the option that limits a kernel's registers per thread, if there is one."""
    return {"maxnreg": most} if is_nvidia() else {}


def sparing() -> dict[str, str]:
    """Returns the option with which ptxas uses fewer registers for operations that it could start sooner.

    With it a loop that needs most registers is 1 to 2 % faster.
    """
    return {"ptx_options": "--register-usage-level=0"} if is_nvidia() else {}
