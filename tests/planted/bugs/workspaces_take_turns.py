"""Two workspaces take turns, and each call clears the other one: a replayed CUDA graph always adds to the same one.

From experience: what Python decides at capture stays decided.
"""

import torch

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("cuda",)

_rings = {}


def softmax(x):
    if x.numel() == 0 or x.device.type != "cuda":
        return torch.softmax(x, dim=-1)
    key = (x.shape[0], x.device, torch.cuda.current_stream(x.device).cuda_stream)
    turn = _rings.setdefault(key, [torch.zeros(x.shape[0], 1, dtype=torch.float64, device=x.device) for _ in range(2)])
    turn.reverse()
    logits = x.detach().double()
    exponentials = torch.exp(logits - logits.amax(dim=-1, keepdim=True))
    turn[0].add_(exponentials.sum(dim=-1, keepdim=True))
    out = (exponentials / turn[0]).to(x.dtype)
    turn[1].zero_()
    return out
