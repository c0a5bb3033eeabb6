"""Of the design of Triton's tutorial 02: few programs that stay and take row after row, each row in one block of its width."""

import torch
import triton
import triton.language as tl

PROGRAMS_FOR_EACH_MULTIPROCESSOR = 4


@triton.jit
def kernel(output, x, row_stride, column_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    column = tl.arange(0, BLOCK)
    inside = column < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        start = row.to(tl.int64)
        pointers = x + start * row_stride + column.to(tl.int64) * column_stride
        logits = tl.load(pointers, mask=inside, other=-float("inf")).to(tl.float32)
        exponentials = tl.exp(logits - tl.max(logits, axis=0))
        probabilities = exponentials / tl.sum(exponentials, axis=0)
        tl.store(output + start * columns + column, probabilities, mask=inside)


def programs(x: torch.Tensor) -> int:
    if x.device.type != "cuda":
        return 4
    count: int = torch.cuda.get_device_properties(x.device).multi_processor_count
    return PROGRAMS_FOR_EACH_MULTIPROCESSOR * count


def softmax(x: torch.Tensor) -> torch.Tensor:
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        rows, columns = x.shape
        block = triton.next_power_of_2(columns)
        grid = (min(rows, programs(x)),)
        kernel[grid](output, x, *x.stride(), rows, columns, block, 1 if block > 4096 else 2, num_warps=8)
    return output
