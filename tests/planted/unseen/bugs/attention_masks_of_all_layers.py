"""Masks are kept by lengths and device in a cache that all modules share, and the window is no part of the key.

Wrong on: two modules in one model, a local one with a window of 16 and a global one, as in Gemma: after
``local_attention(q, k, v)`` the answer of ``global_attention(q, k, v)`` is that of the window, and the other way round.
Each by itself is right.
"""

from typing import ClassVar

import torch

from softcheck import variant

FUNCTION = "global_attention"
EXPECTED = ("ulp_exceeds_bound", "row_dependence", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


class Attention(torch.nn.Module):
    _masks: ClassVar = {}

    def __init__(self, window=0):
        super().__init__()
        self.window = window

    def _hidden(self, queries, keys, device):
        at = queries, keys, device
        if at not in self._masks:
            place = torch.arange(queries, device=device)[:, None] + keys - queries
            key = torch.arange(keys, device=device)[None, :]
            hidden = key > place
            if self.window:
                hidden |= key <= place - self.window
            self._masks[at] = hidden
        return self._masks[at]

    def forward(self, q, k, v):
        groups = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        with torch.autocast(q.device.type, enabled=False):
            scores = q.float() @ k.float().mT * q.shape[-1] ** -0.5
            scores = scores.masked_fill(self._hidden(q.shape[2], k.shape[2], q.device), -float("inf"))
            return (torch.softmax(scores, -1) @ v.float()).to(q.dtype)


_local, _global = Attention(window=16), Attention()


@variant(operation="attention", parameters={"causal": "bottom-right", "window": 16}, call="f(q, k, v)")
def local_attention(q, k, v):
    return _local(q, k, v)


@variant(operation="attention", parameters={"causal": "bottom-right"}, call="f(q, k, v)")
def global_attention(q, k, v):
    return _global(q, k, v)


def _exact(q, k, v, window=0):
    place = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    key = torch.arange(k.shape[2])[None, :]
    hidden = (key > place) | ((key <= place - window) if window else (key < 0))
    scores = (q.double() @ k.double().mT * q.shape[-1] ** -0.5).masked_fill(hidden, -float("inf"))
    return torch.softmax(scores, -1) @ v.double()


def demonstrate():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 40, 64) for _ in range(3))
    local_attention(q, k, v)
    return global_attention(q, k, v), _exact(q, k, v)


def ordinary(dtype):
    q, k, v = (torch.randn(1, 2, 50, 64).to(dtype) for _ in range(3))
    yield "global", (global_attention(q, k, v), _exact(q, k, v))
    q, k, v = (torch.randn(1, 2, 60, 64).to(dtype) for _ in range(3))
    yield "local", (local_attention(q, k, v), _exact(q, k, v, 16))
