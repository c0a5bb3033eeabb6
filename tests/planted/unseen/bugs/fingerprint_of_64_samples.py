"""The last result is kept by shape and a fingerprint of 64 samples of the input: what changes between the samples goes unseen.

Wrong on: a second call of the same shape whose logits differ in a few places, such as one token masked out, where no sample lies.
"""

import torch

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")

_last = {}


def fingerprint(x):
    flat = x.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // 64)].clone()


def softmax(x):
    key = (x.shape, x.stride(), x.dtype, x.device)
    if x.numel() == 0 or x.requires_grad or (x.is_cuda and torch.cuda.is_current_stream_capturing()):
        return torch.softmax(x, -1)
    print_now = fingerprint(x)
    if key in _last and torch.equal(_last[key][0], print_now):
        return _last[key][1].clone()
    y = torch.softmax(x, -1)
    _last[key] = (print_now, y.clone())
    return y


def demonstrate():
    x = torch.randn(8, 1000)
    softmax(x)
    x[:, 501] = -float("inf")
    return softmax(x), torch.softmax(x.double(), -1)
