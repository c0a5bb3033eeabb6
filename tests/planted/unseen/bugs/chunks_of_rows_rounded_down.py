"""Above 2^20 elements rows are taken in chunks to spare memory, whose count is rounded down: the last rows are zeros."""

import torch

EXPECTED = ("sum_violation", "ulp_exceeds_bound", "unwritten_output")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

LIMIT = 1 << 20


def chunked(x):
    per_chunk = max(1, LIMIT // 4 // x.size(1))
    result = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    for chunk in range(x.size(0) // per_chunk):
        rows = slice(chunk * per_chunk, (chunk + 1) * per_chunk)
        result[rows] = torch.softmax(x[rows].float(), dim=1).to(x.dtype)
    return result


def softmax(x):
    if x.numel() > LIMIT:
        return chunked(x)
    return torch.softmax(x, dim=1)


def demonstrate():
    x = torch.randn(1100, 1000)
    return softmax(x), torch.softmax(x.double(), -1)
