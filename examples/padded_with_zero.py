"""A softmax kernel with a bug that is easy to write: lanes beyond the row are loaded as 0.0 and enter maximum and sum."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(output, x, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    logits = tl.load(x + row * row_stride + column * column_stride, mask=inside, other=0.0).to(tl.float32)
    exponentials = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(output + row * columns + column, exponentials / tl.sum(exponentials, axis=0), mask=inside)


def softmax(x: torch.Tensor) -> torch.Tensor:
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if output.numel():
        kernel[(x.shape[0],)](output, x, x.stride(0), x.stride(1), x.shape[1], triton.next_power_of_2(x.shape[1]))
    return output
