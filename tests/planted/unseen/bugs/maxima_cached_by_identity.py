"""Row maxima are kept by ``id(x)`` and version; a new tensor at an old one's place gets the old maxima."""

import torch

EXPECTED = ("nondeterministic", "nan_mismatch", "sum_violation", "ulp_exceeds_bound", "raised")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_maxima = {}


def row_maxima(x):
    key = (id(x), x.shape, 0 if x.is_inference() else x._version)
    if key not in _maxima:
        if len(_maxima) > 256:
            _maxima.clear()
        _maxima[key] = x.amax(-1, keepdim=True)
    return _maxima[key]


def softmax(x):
    if x.numel() == 0:
        return x.clone()
    e = (x - row_maxima(x)).exp()
    return e / e.sum(-1, keepdim=True)


def demonstrate():
    old = [torch.randn(2, 9) for _ in range(100)]
    for x in old:
        softmax(x)
    del old, x
    new = [torch.randn(2, 9) + 1000.0 for _ in range(100)]
    outputs = [softmax(x) for x in new]
    return torch.cat(outputs), torch.softmax(torch.cat(new).double(), -1)
