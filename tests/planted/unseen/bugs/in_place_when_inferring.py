"""In inference mode the result is written over the input, "nobody needs it for gradients"."""

import torch

EXPECTED = ("input_modified", "output_reused")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if torch.is_inference_mode_enabled() and x.is_contiguous():
        return torch.softmax(x, -1, out=x)
    return torch.softmax(x, -1)


def demonstrate():
    with torch.inference_mode():
        x = torch.randn(2, 8)
        before = x.clone()
        softmax(x)
    return x, before.double()
