"""A fixed grid that fills the device once, each program striding over the rows."""

import torch
import triton
import triton.language as tl

from softcheck.variants.builtin._common import compute_type, jit, new_output
from softcheck.variants.builtin.declarations import declared

_WARPS = 8


@jit
def _persistent_kernel(
    output,
    x,
    row_stride,
    column_stride,
    rows,
    columns,
    BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr,
    STAGES: tl.constexpr,
):
    column = tl.arange(0, BLOCK)
    inside = column < columns
    input_column = column.to(tl.int64) * column_stride
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        wide_row = tl.cast(row, tl.int64)
        logits = tl.load(x + wide_row * row_stride + input_column, mask=inside, other=-float("inf")).to(COMPUTE)
        exponentials = tl.exp(logits - tl.max(logits, axis=0))
        probabilities = exponentials / tl.sum(exponentials, axis=0)
        tl.store(output + wide_row * columns + column, probabilities, mask=inside)


@declared("persistent")
def persistent(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row, shape [rows, columns]. Raises OutOfResources where a row exceeds shared memory."""
    output = new_output(x)
    if output.numel():
        programs, stages = _launch_size(output, x)
        _persistent_kernel[(programs,)](*_arguments(output, x), STAGES=stages, num_warps=_WARPS)
    return output


def _arguments(output: torch.Tensor, x: torch.Tensor) -> tuple[object, ...]:
    rows, columns = x.shape
    return (output, x, *x.stride(), rows, columns, triton.next_power_of_2(columns), compute_type(x))


_programs_that_fit: dict[tuple[object, ...], tuple[int, int]] = {}
"""Resident programs and pipeline stages by device, target, dtype, block and whether rows are packed."""


def _launch_size(output: torch.Tensor, x: torch.Tensor) -> tuple[int, int]:
    """Programs to launch and pipeline stages."""
    rows, columns = x.shape
    if not isinstance(_persistent_kernel, triton.JITFunction):
        # The interpreter has no registers to count; a few programs still make each stride over several rows.
        return min(rows, 4), 2
    driver = triton.runtime.driver.active
    device = driver.get_current_device()
    key = (device, driver.get_current_target(), x.dtype, triton.next_power_of_2(columns), x.stride(1) == 1)
    if key not in _programs_that_fit:
        properties = driver.utils.get_device_properties(device)
        _programs_that_fit[key] = _occupancy(output, x, properties)
    programs, stages = _programs_that_fit[key]
    return min(rows, programs), stages


def _occupancy(output: torch.Tensor, x: torch.Tensor, properties: dict[str, int]) -> tuple[int, int]:
    """Programs that the whole device holds at once, and stages.

    They follow from the registers and shared memory of a warm-up compilation.
    """
    shared_limit = properties["max_shared_mem"]
    buffer_bytes = triton.next_power_of_2(x.shape[1]) * x.element_size()
    # A pipeline of n stages keeps n - 1 loads in flight, each in its own buffer.
    stages = 4 if 3 * buffer_bytes < shared_limit else 2
    kernel = _persistent_kernel.warmup(*_arguments(output, x), STAGES=stages, num_warps=_WARPS, grid=(1,))
    kernel._init_handles()  # noqa: SLF001 - Triton fills n_regs in here and offers no public way
    threads = _WARPS * properties["warpSize"]
    resident = properties["max_num_regs"] // (max(kernel.n_regs, 1) * threads)
    if kernel.metadata.shared:
        resident = min(resident, shared_limit // kernel.metadata.shared)
    return properties["multiprocessor_count"] * max(resident, 1), stages
