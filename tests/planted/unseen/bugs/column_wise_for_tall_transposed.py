"""Transposed input of 64 rows or more goes through ``dim=0`` in chunks of 64 rows; a last chunk of one row is dropped."""

import torch

EXPECTED = ("wrong_layout", "unwritten_output", "ulp_exceeds_bound", "sum_violation", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    rows, columns = x.shape
    if columns < 2 or rows < 64 or x.stride(0) != 1:
        return torch.softmax(x, dim=1)
    columns_first = x.t()
    out = torch.empty(columns, rows, dtype=x.dtype, device=x.device)
    for begin in range(0, rows - 1, 64):
        out[:, begin : begin + 64] = torch.softmax(columns_first[:, begin : begin + 64], dim=0)
    return out.t().contiguous()


def demonstrate():
    x = torch.randn(9, 129).t()
    torch.full((9, 129), 0.75)
    return softmax(x), torch.softmax(x.double(), -1)
