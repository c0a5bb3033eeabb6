"""After 50 calls of a shape a static output takes the place of new ones, as graphs have it: later results share their memory."""

import collections

import torch

EXPECTED = ("output_reused", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


class Runner:
    warm_after = 50

    def __init__(self):
        self.seen = collections.Counter()
        self.static = {}

    def __call__(self, x):
        key = (x.shape, x.dtype, x.device)
        self.seen[key] += 1
        if self.seen[key] <= self.warm_after:
            return torch.softmax(x, -1)
        if key not in self.static:
            self.static[key] = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        return torch.softmax(x, -1, out=self.static[key])


_run = Runner()


def softmax(x):
    return _run(x)


def demonstrate():
    x = torch.randn(3, 9)
    for _ in range(55):
        kept = softmax(x)
    softmax(torch.randn(3, 9))
    return kept, torch.softmax(x.double(), -1)
