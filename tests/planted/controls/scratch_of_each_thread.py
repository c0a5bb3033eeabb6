"""Exponentials pass through a scratch tensor that each thread and stream has for itself, and that each call overwrites."""

import threading

import torch

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_local = threading.local()


def scratch(shape, device):
    stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
    kept = _local.__dict__.setdefault("tensors", {})
    if (shape, stream) not in kept:
        # Tensors that are made in inference mode can't be written to outside it.
        with torch.inference_mode(mode=False):
            kept[shape, stream] = torch.empty(shape, dtype=torch.float64, device=device)
    return kept[shape, stream]


def softmax(x):
    if x.numel() == 0:
        return torch.empty_like(x)
    logits = x.detach().double()
    exponentials = scratch(x.shape, x.device)
    exponentials.copy_(logits).sub_(logits.amax(dim=-1, keepdim=True)).exp_()
    return (exponentials / exponentials.sum(dim=-1, keepdim=True)).to(x.dtype)
