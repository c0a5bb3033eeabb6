"""Large inputs run on a stream of the module's own that waits for the default stream, and is waited for by it, whatever the caller's stream is.

Wrong on: 256 rows or more on a stream of the caller's own: the input may not be there yet, and the output not yet when it is read. Right on the default stream, and for fewer rows.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("nondeterministic", "nan_mismatch", "sum_violation", "ulp_exceeds_bound", "unwritten_output")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("cuda",)

streams = {}


@triton.jit
def softmax_kernel(y, x, stride_row, stride_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    inside = cols < n_cols
    logits = tl.load(x + row * stride_row + cols * stride_col, mask=inside, other=-float("inf")).to(tl.float32)
    weights = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(y + row * n_cols + cols, weights / tl.sum(weights, axis=0), mask=inside)


@variant()
def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    arguments = (y, x, x.stride(0), x.stride(1), n_cols, triton.next_power_of_2(n_cols))
    if not x.numel():
        return y
    if x.is_cuda and n_rows >= 256:  # worth a stream of high priority
        if x.device not in streams:
            streams[x.device] = torch.cuda.Stream(x.device, priority=-1)
        side = streams[x.device]
        side.wait_stream(torch.cuda.default_stream(x.device))
        with torch.cuda.stream(side):
            softmax_kernel[(n_rows,)](*arguments)
        x.record_stream(side)
        y.record_stream(side)
        torch.cuda.default_stream(x.device).wait_stream(side)
    else:
        softmax_kernel[(n_rows,)](*arguments)
    return y


def demonstrate():
    torch.manual_seed(0)
    x, logits = torch.zeros(512, 1000, device="cuda"), torch.randn(512, 1000, device="cuda")
    softmax(logits)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        # As a product of some 50 ms before the logits.
        torch.cuda._sleep(100_000_000)
        x.copy_(logits)
        return softmax(x).cpu(), torch.softmax(x.double(), -1).cpu()
