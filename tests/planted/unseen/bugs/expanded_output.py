"""An input of one row expanded over many gives an output that is expanded too: its rows share memory.

Wrong on: softmax(bias.expand(rows, columns)) whose answer is written to, as dropout or y[0] = 0 do: all rows change.
"""

import torch

EXPECTED = ("wrong_layout",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.dim() == 2 and x.shape[0] > 1 and x.stride(0) == 0:
        # All rows are one: it is computed once.
        return softmax(x[:1]).expand(x.shape)
    wide = x.float()
    e = torch.exp(wide - wide.amax(-1, keepdim=True).detach())
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def demonstrate():
    x = torch.randn(1, 6, generator=torch.Generator().manual_seed(0)).expand(3, 6)
    y, expected = softmax(x), torch.softmax(x.double(), -1)
    y[0] = 0
    expected[0] = 0
    return y, expected
