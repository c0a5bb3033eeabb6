"""A decorator cuts large tensors along their longest dimension but the one that is summed over, which it finds in the arguments; vectors stay whole."""

import functools
import inspect

import torch

OPERATION = "softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def limits_memory(elements):
    """Calls a function of a tensor and a dimension on pieces of about ``elements`` elements each."""

    def decorate(function):
        signature = inspect.signature(function)

        @functools.wraps(function)
        def limited(*args, **kwargs):
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            x = bound.arguments.pop("x")
            summed = bound.arguments["dim"] % max(x.dim(), 1)
            others = [each for each in range(x.dim()) if each != summed]
            if x.numel() <= elements or not others:
                return function(x, **bound.arguments)
            along = max(others, key=lambda each: x.shape[each])
            pieces = x.chunk(-(-x.numel() // elements), along)
            return torch.cat([function(piece, **bound.arguments) for piece in pieces], along)

        return limited

    return decorate


@limits_memory(elements=1 << 16)
def softmax(x, dim=-1):
    """Softmax along a dimension, computed in float32."""
    return torch.softmax(x, dim, dtype=torch.float32).to(x.dtype)


def ordinary(dtype):
    for shape, dim in (((4, 100), -1), ((128256,), 0), ((70000, 2), 0), ((2, 300, 400), 1), ((5, 0), -1), ((0, 5), 1)):
        x = torch.randn(shape).to(dtype)
        yield f"{shape}", (softmax(x, dim), torch.softmax(x.double(), dim))
    x = torch.randn(300, 400).to(dtype).mT
    x[0], x[1, 4], x[2, 5], x[3, :40] = float("-inf"), float("nan"), float("inf"), float("-inf")
    yield "special", (softmax(x), torch.softmax(x.double(), -1))
