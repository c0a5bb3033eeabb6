"""Two buffers take turns as a program walks through its rows; it ends its pairs with the even one, also after an odd count above one.

Wrong on: row counts that give a program 3, 5, 7 ... rows: from 49 to 71 rows with its 24 programs, the last of a program's rows.
"""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")

PROGRAMS = 24


def softmax(x):
    rows = x.shape[0]
    if rows < 2 * PROGRAMS:
        return torch.softmax(x, -1)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    last = rows - rows % PROGRAMS or rows
    buffers = [None, None]
    for trip, begin in enumerate(range(0, rows, PROGRAMS)):
        span = slice(begin, min(begin + PROGRAMS, rows))
        buffers[trip % 2] = torch.softmax(x[span], -1)
        drained = buffers[trip % 2] if trip < 2 or begin < last or trip % 2 else buffers[1][: rows - begin]
        y[span] = drained
    return y


def demonstrate():
    x = torch.randn(60, 10)
    return softmax(x), torch.softmax(x.double(), -1)
