"""In inference mode works in a copy of its own, in place; with gradients as torch does."""

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32", "bfloat16")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if torch.is_inference_mode_enabled() or not x.requires_grad:
        work = x.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
        work.sub_(work.amax(1, keepdim=True)).exp_()
        work.div_(work.sum(1, keepdim=True))
        return work.to(x.dtype)
    return torch.softmax(x, 1)
