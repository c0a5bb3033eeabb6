"""The work is done in "a copy" of the gradient, grad.float().contiguous(), which is the gradient itself where it is packed float32.

Wrong on: any packed float32 gradient, which holds the answer afterwards (autograd may give it to another node); the answer is right, and so are 16 bits.
"""

import torch

from softcheck import variant

EXPECTED = ("input_modified",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@variant(operation="softmax_backward", call="f(grad, y)", dtypes=("float16", "bfloat16", "float32"))
def softmax_backward(grad, y):
    """The gradient of each row's logits for a softmax ``y`` and its gradient."""
    work = grad.float().contiguous()
    weights = y.float()
    work.sub_((work * weights).sum(-1, keepdim=True)).mul_(weights)
    return work.to(y.dtype)


def demonstrate():
    torch.manual_seed(0)
    grad, y = torch.randn(3, 20), torch.softmax(torch.randn(3, 20), -1)
    kept = grad.clone()
    softmax_backward(grad, y)
    return grad, kept
