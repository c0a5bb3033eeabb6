"""Rows go to launches of 32768; from the third on, the input's part is the second's again, since its start is moved once only.

Wrong on: more than 65536 rows: row 65536 gets the probabilities of row 32768.
"""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "unwritten_output")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")

ROWS = 1 << 15


def softmax(x):
    rows = x.shape[0]
    if rows <= ROWS:
        return torch.softmax(x, -1)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    first = x
    for start in range(0, rows, ROWS):
        if start == ROWS:
            first = x[ROWS:]
        stop = min(start + ROWS, rows)
        y[start:stop] = torch.softmax(first[: stop - start], -1)
    return y


def demonstrate():
    x = torch.randn(70000, 3)
    return softmax(x), torch.softmax(x.double(), -1)
