"""Large inputs are computed in equal chunks of rows; the rows that don't divide evenly among them are never computed.

Wrong on: more than 2^18 elements where the number of chunks does not divide the rows, such as [1001, 300]; right on powers of two.
"""

import torch

EXPECTED = ("nan_mismatch", "unwritten_output")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_BUDGET = 2**17


def _small(x):
    wide = x.detach().float()
    e = torch.exp(wide - wide.amax(-1, keepdim=True))
    return e.div_(e.sum(-1, keepdim=True))


def softmax(x):
    """Softmax of each row, shape [rows, columns], with temporaries of bounded size."""
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rows = x.shape[0]
    chunks = min(x.numel() // _BUDGET, rows)
    if chunks < 2:
        return output.copy_(_small(x)) if x.numel() else output
    size = rows // chunks
    for chunk in range(chunks):
        output[chunk * size : (chunk + 1) * size] = _small(x[chunk * size : (chunk + 1) * size])
    return output


def demonstrate():
    x = torch.randn(1001, 300, generator=torch.Generator().manual_seed(0))
    return softmax(x)[-1:], torch.softmax(x.double(), -1)[-1:]
