"""Statistics lie in a workspace of each thread, device and stream, which every call writes before it reads it."""

import threading

import torch
import triton
import triton.language as tl

OPERATION = "log_softmax"
FUNCTION = "LogSoftmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_local = threading.local()


def _workspace(rows, device):
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    kept = _local.__dict__.setdefault("kept", {})
    key = device, stream
    if key not in kept or kept[key].numel() < rows:
        kept[key] = torch.empty((triton.next_power_of_2(rows),), device=device, dtype=torch.float32)
    return kept[key]


@triton.jit
def _maxima_and_sums(x_ptr, m_ptr, s_ptr, stride_r, stride_c, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_r
    m = -float("inf")
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        m = tl.maximum(
            m, tl.max(tl.load(x_ptr + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32), 0)
        )
    s = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = (start + tl.arange(0, BLOCK)).to(tl.int64)
        s += tl.exp(tl.load(x_ptr + cols * stride_c, mask=cols < n_cols, other=-float("inf")).to(tl.float32) - m)
    tl.store(m_ptr + row, m)
    tl.store(s_ptr + row, tl.log(tl.sum(s, 0)))


@triton.jit
def _subtract(x_ptr, m_ptr, s_ptr, out_ptr, stride_r, stride_c, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_r + cols * stride_c, mask=cols < n_cols, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * n_cols + cols, x - tl.load(m_ptr + row) - tl.load(s_ptr + row), mask=cols < n_cols)


class LogSoftmax(torch.nn.Module):
    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        moved = x.movedim(self.dim, -1)
        n_cols = moved.shape[-1]
        flat = moved.reshape(moved.shape[:-1].numel(), n_cols)
        out = torch.empty(flat.shape, device=x.device, dtype=x.dtype)
        if out.numel():
            rows = flat.shape[0]
            both = _workspace(2 * rows, x.device)
            m, s = both[:rows], both[rows : 2 * rows]
            _maxima_and_sums[(rows,)](flat, m, s, *flat.stride(), n_cols, BLOCK=512)
            _subtract[(rows, triton.cdiv(n_cols, 512))](flat, m, s, out, *flat.stride(), n_cols, BLOCK=512)
        return out.view(moved.shape).movedim(-1, self.dim)


def ordinary(dtype):
    for shape in ((4, 100), (1, 1), (2, 9000), (500, 3), (0, 4), (4, 0), (2, 3, 17), (7,), (3, 700)):
        x = torch.randn(shape).to(dtype)
        for dim in (-1, 0):
            yield f"{shape} {dim}", (LogSoftmax(dim)(x), torch.log_softmax(x.double(), dim))
    x = torch.randn(5, 60).to(dtype)
    x[0], x[1, 4], x[2, 5], x[3, :40] = -float("inf"), float("nan"), float("inf"), -float("inf")
    yield "special", (LogSoftmax()(x), torch.log_softmax(x.double(), -1))
    x = (torch.randn(30, 7) * 1e3).to(dtype).mT
    yield "transposed", (LogSoftmax()(x), torch.log_softmax(x.double(), -1))
