"""Rows that repeat are computed once, told by all of their bits; while a graph is captured, which forbids to look, every row is."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    capturing = x.is_cuda and torch.cuda.is_current_stream_capturing()
    if x.shape[0] < 8 or x.numel() == 0 or x.requires_grad or capturing:
        return torch.softmax(x, -1)
    bits = x.contiguous().view(torch.int16 if x.element_size() == 2 else torch.int32)
    distinct, place = torch.unique(bits, dim=0, return_inverse=True)
    return torch.softmax(distinct.view(x.dtype), -1).index_select(0, place)
