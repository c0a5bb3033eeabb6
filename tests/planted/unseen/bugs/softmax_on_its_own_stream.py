"""Kernels run on a stream of their own, which does not wait for the input, nor the caller's stream for the output.

Wrong on: ``softmax(a @ b)`` on a GPU with a product that takes a while: the input is read before it is there, and the
output before it is written. Right under the interpreter, and where nothing else runs.
"""

import torch
import triton
import triton.language as tl

EXPECTED = ("nondeterministic", "ulp_exceeds_bound", "sum_violation", "nan_mismatch", "unwritten_output")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("cuda",)

_streams = {}


@triton.jit
def _softmax(x_ptr, out_ptr, stride_r, stride_c, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_r
    out_ptr += row * n_cols
    m = -float("inf")
    s = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(x, 0))
        shift = tl.where(new == -float("inf"), 0.0, new)
        s = s * tl.exp(m - shift) + tl.sum(tl.exp(x - shift), 0)
        m = new
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        x = tl.load(x_ptr + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out_ptr + cols, tl.exp(x - m) / s, mask=cols < n_cols)


def softmax(x):
    rows, n_cols = x.shape
    out = torch.empty((rows, n_cols), device=x.device, dtype=x.dtype)
    if not out.numel():
        return out
    if x.is_cuda:
        if x.device not in _streams:
            _streams[x.device] = torch.cuda.Stream(x.device)
        with torch.cuda.stream(_streams[x.device]):
            _softmax[(rows,)](x, out, *x.stride(), n_cols, BLOCK=1024)
    else:
        _softmax[(rows,)](x, out, *x.stride(), n_cols, BLOCK=1024)
    return out


def demonstrate():
    torch.manual_seed(0)
    x, logits = torch.zeros(64, 5000, device="cuda"), torch.randn(64, 5000, device="cuda")
    softmax(logits)
    torch.cuda.synchronize()
    # As a product of some 50 ms before the logits.
    torch.cuda._sleep(100_000_000)
    x.copy_(logits)
    return softmax(x).cpu(), torch.softmax(x.double(), -1).cpu()


def ordinary(dtype):
    for shape in ((4, 100), (3, 5000)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (softmax(x), torch.softmax(x.double(), -1))
