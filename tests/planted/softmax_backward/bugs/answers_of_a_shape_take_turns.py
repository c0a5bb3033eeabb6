"""Two buffers of a shape take turns for the answers: the call after next overwrites one that a caller may hold.

From experience: the gradient of a layer is used up before that of the layer after next, unless gradients are kept.
"""

import itertools

import torch

import softcheck

EXPECTED = ("output_reused", "nondeterministic")
SHOWN_BY = ("probe/histories",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_turns = {}


def _memory(y):
    key = y.shape, y.dtype, y.device
    if key not in _turns:
        both = [torch.empty(y.shape, dtype=y.dtype, device=y.device) for _ in range(2)]
        _turns[key] = itertools.cycle(both)
    return next(_turns[key])


@softcheck.variant(operation="softmax_backward", dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    g, p = grad.float(), y.float()
    return _memory(y).copy_(p * (g - (p * g).sum(dim=-1, keepdim=True)))
