"""Gradients with one element per row, as behind a picked class, take a shorter way; that they are of this kind is told by the first row alone.

Wrong on: a first row with a single gradient other than 0 and later rows with several, as where each row has its own loss mask. Dense and one-element gradients are right.
"""

import torch

from softcheck import variant

EXPECTED = ("row_dependence", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _is_picked(grad):
    if not grad.numel() or (grad.is_cuda and torch.cuda.is_current_stream_capturing()):
        return False
    return int(torch.count_nonzero(grad[0])) == 1


@variant(operation="softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    """The gradient of each row's logits for an output ``y`` and its gradient."""
    g, p = grad.float(), y.float()
    if not _is_picked(grad):
        return (p * (g - (p * g).sum(-1, keepdim=True))).to(y.dtype)
    place = g.abs().argmax(-1, keepdim=True)
    of_place = g.gather(-1, place)
    mean = p.gather(-1, place) * of_place
    found = -p * mean
    return found.scatter_(-1, place, p.gather(-1, place) * (of_place - mean)).to(y.dtype)


def demonstrate():
    torch.manual_seed(0)
    grad, y = torch.randn(3, 8), torch.softmax(torch.randn(3, 8), -1)
    grad[0, :7] = 0.0
    g, p = grad.double(), y.double()
    return softmax_backward(grad, y), p * (g - (p * g).sum(-1, keepdim=True))
