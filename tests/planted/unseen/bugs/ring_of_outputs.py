"""Outputs of small inputs come from a ring of two kept buffers, so the third call of a shape overwrites the first one's answer.

Wrong on: three answers of one shape that are held at once, as in a list over heads or steps; right for two.
"""

import torch

EXPECTED = ("nondeterministic", "output_reused")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_rings = {}


def _output(x):
    if x.numel() > 65536:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    ring = _rings.setdefault((x.shape, x.dtype, x.device), [])
    if len(ring) < 2:
        ring.append(torch.empty(x.shape, dtype=x.dtype, device=x.device))
        return ring[-1]
    ring.reverse()
    return ring[1]


def softmax(x):
    """Softmax of each row, shape [rows, columns]."""
    with torch.no_grad():
        if not x.numel():
            return torch.empty(x.shape, dtype=x.dtype, device=x.device)
        wide = x.float()
        e = torch.exp(wide - wide.amax(-1, keepdim=True))
        return _output(x).copy_(e / e.sum(-1, keepdim=True))


def demonstrate():
    x = torch.randn(3, 2, 6, generator=torch.Generator().manual_seed(0))
    answers = [softmax(part) for part in x]
    return torch.stack(answers), torch.softmax(x.double(), -1)
