"""One program per row and one block as wide as the row, with no limit: right, but its widest blocks take minutes to compile."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(output, x, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    pointers = x + row * row_stride + column.to(tl.int64) * column_stride
    logits = tl.load(pointers, mask=inside, other=-float("inf")).to(tl.float32)
    exponentials = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(output + row * columns + column, exponentials / tl.sum(exponentials, axis=0), mask=inside)


def softmax(x: torch.Tensor) -> torch.Tensor:
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        block = triton.next_power_of_2(x.shape[1])
        kernel[(x.shape[0],)](output, x, *x.stride(), x.shape[1], block)
    return output
