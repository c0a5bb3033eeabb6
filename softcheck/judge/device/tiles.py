"""How a scan's rows are spread over programs, warps and lanes, and what of a multiprocessor each program takes."""

import torch
import triton

from softcheck.judge.device._jit import INTERPRETED
from softcheck.judge.device.reduction import is_nvidia

WARP_ELEMENTS = 1024
"""Elements of a wide row that one warp holds: fewer take fewer registers, but more steps of reduction per element."""
_SHORT = 512
"""Columns below which a program has several rows, if they are few enough."""
WARP = 32
_MOST_WARPS = 16
"""Warps of a program: more would not find REGISTERS for each of their threads."""
NARROW = 64
"""Columns up to which the sum's bound is computed in full: in short rows few roundings can't average out."""
REGISTERS = 128
THREADS = 512
"""Registers per thread, and threads per multiprocessor that have so many."""
_MOST_REGISTERS = 255
_ELEMENTS = 32
"""Elements per thread that need them."""
_STAGES = 3
"""Rows that are loaded ahead, and the one in hand."""
_OTHER_SHARED = 16384
"""Bytes of a program's shared memory for anything but rows loaded ahead: the table of counts, and what reductions take."""


def tile(columns: int, warp_elements: int = WARP_ELEMENTS) -> tuple[int, int, int]:
    """Columns and rows of a program's tile, and its warps: no row is split between warps that one could hold.

    A warp has ``warp_elements`` of a wide row, 256 of short ones, and at most two rows to a thread, since each row in hand
    takes registers of its own.
    """
    block = int(triton.next_power_of_2(columns))
    if block >= _SHORT:
        return block, 1, max(1, min(_MOST_WARPS, block // warp_elements))
    warps = 4 if block <= NARROW else 1
    per_warp = min(_SHORT // 2, 2 * WARP * block)
    return block, warps * per_warp // block, warps


def registers_per_thread(elements: int, warps: int) -> int:
    """Registers for each thread of a program: more where a thread has many elements, if a multiprocessor has so many."""
    fit = WARP * warps * _MOST_REGISTERS <= REGISTERS * THREADS
    return _MOST_REGISTERS if elements >= _ELEMENTS and fit else REGISTERS


def spread(x: torch.Tensor, y: torch.Tensor, block: int, tile_rows: int, warps: int) -> tuple[int, int]:
    """Lanes that share a row, 1 where a program has several rows, and how many neighbouring columns each of them loads.

    Should Triton spread the columns in another way, figures are the same but have to be exchanged between lanes.
    """
    if tile_rows > 1:
        return 1, 1
    threads = WARP * warps
    aligned = all(t.stride(1) == 1 and t.stride(0) % 16 == 0 and t.data_ptr() % 16 == 0 for t in (x, y))
    return threads, min(16 // x.element_size(), block // threads) if aligned else 1


def stages(block: int, itemsize: int) -> int:
    """Rows of ``block`` columns, of input and output, that fit a program's shared memory, and the one in hand; at most 3."""
    return 1 + min(_STAGES - 1, max(0, (_shared_bytes() - _OTHER_SHARED) // (2 * block * itemsize)))


def _shared_bytes() -> int:
    """Shared memory that one program may have, in bytes."""
    if INTERPRETED:
        return 1 << 30
    driver = triton.runtime.driver.active
    return int(driver.utils.get_device_properties(driver.get_current_device())["max_shared_mem"])


def default_programs(device: torch.device, warps: int, threads: int) -> int:
    """Programs that fill a device with so many threads per multiprocessor."""
    if device.type != "cuda":
        return 2
    multiprocessors = int(torch.cuda.get_device_properties(device).multi_processor_count)
    return multiprocessors * max(1, threads // (32 * warps))


def registers(most: int) -> dict[str, int]:
    """The option that limits a kernel's registers per thread, where there is one."""
    return {"maxnreg": most} if is_nvidia() else {}


def sparing() -> dict[str, str]:
    """The option with which ptxas takes fewer registers for what it could do sooner: a loop that needs most of them is 1 to 2 % faster."""
    return {"ptx_options": "--register-usage-level=0"} if is_nvidia() else {}
