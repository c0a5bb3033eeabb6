"""A decorator cuts large tensors along dimension 0 and joins the answers, for all of the library's functions: a softmax along dimension 0 is cut too.

Wrong on: ``dim=0`` with more than 65536 elements, and a vector of more than 65536 logits (one token over a vocabulary): each piece sums to 1.
"""

import functools

import torch

OPERATION = "softmax"
EXPECTED = ("sum_violation", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def limits_memory(elements):
    """Calls a function of a tensor on pieces of at most ``elements`` elements each."""

    def decorate(function):
        @functools.wraps(function)
        def limited(x, *args, **kwargs):
            if x.numel() <= elements or not x.dim():
                return function(x, *args, **kwargs)
            pieces = -(-x.numel() // elements)
            return torch.cat([function(piece, *args, **kwargs) for piece in x.chunk(pieces)])

        return limited

    return decorate


@limits_memory(elements=1 << 16)
def softmax(x, dim=-1):
    """Softmax along a dimension, computed in float32."""
    return torch.softmax(x, dim, dtype=torch.float32).to(x.dtype)


def demonstrate():
    x = torch.randn(128256)
    return softmax(x), torch.softmax(x.double(), -1)


def ordinary(dtype):
    for shape, dim in (((4, 100), -1), ((64, 3000), -1), ((300, 20), 0), ((5000,), 0), ((2, 300, 400), -1)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (softmax(x, dim), torch.softmax(x.double(), dim))
