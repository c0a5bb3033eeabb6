"""Parts are added by atomics in an autotuned kernel without ``reset_to_zero``: each timed run adds to the same sums.

Wrong on: a GPU, at the first call for each number of columns and dtype: too large by the logarithm of the number of
runs, hundreds. Right on later calls, and under the interpreter, which times nothing.
"""

import torch
import triton
import triton.language as tl

OPERATION = "logsumexp"
EXPECTED = ("ulp_exceeds_bound", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("cuda",)


@triton.autotune(
    configs=[triton.Config({"BLOCK": 512}, num_warps=2), triton.Config({"BLOCK": 2048}, num_warps=8)], key=["n_cols"]
)
@triton.jit
def _sums(x_ptr, m_ptr, s_ptr, stride_r, stride_c, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_r + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    m = tl.load(m_ptr + row)
    tl.atomic_add(s_ptr + row, tl.sum(tl.exp(x - m), 0))


def logsumexp(x):
    rows, n_cols = x.shape
    if x.numel() == 0:
        return torch.full((rows,), -float("inf"), device=x.device, dtype=x.dtype)
    top = x.detach().amax(1).float()
    shift = torch.where(top.abs() == float("inf"), 0.0, top)
    s = torch.zeros((rows,), device=x.device, dtype=torch.float32)
    _sums[lambda meta: (rows, triton.cdiv(n_cols, meta["BLOCK"]))](x, shift, s, x.stride(0), x.stride(1), n_cols)
    return (shift + s.log()).to(x.dtype)


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(64, 5000, device="cuda")
    return logsumexp(x).cpu(), torch.logsumexp(x.double(), -1).cpu()


def ordinary(dtype):
    for shape in ((4, 100), (3, 5000)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (logsumexp(x), torch.logsumexp(x.double(), -1))
