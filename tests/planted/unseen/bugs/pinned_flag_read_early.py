"""A flag for large logits is copied to pinned memory without blocking and read at once: the answer is the last call's.

Wrong on: logits of 89 and more in a call behind one with small ones: the flag still says small, and exp overflows.
"""

import torch

EXPECTED = ("nan_mismatch", "ulp_exceeds_bound", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("cuda",)

_flags = {}


def softmax(x):
    if x.numel() == 0 or not x.is_cuda or torch.cuda.is_current_stream_capturing():
        return torch.softmax(x, -1)
    key = (x.device, torch.cuda.current_stream(x.device).cuda_stream)
    if key not in _flags:
        _flags[key] = torch.ones(1, dtype=torch.bool).pin_memory()
    flag = _flags[key]
    wide = x.float()
    flag.copy_((wide.abs().amax() > 16.0).reshape(1) | wide.isnan().any(), non_blocking=True)
    if bool(flag[0]):
        wide = wide - wide.amax(1, keepdim=True)
    e = wide.exp()
    return (e / e.sum(1, keepdim=True)).to(x.dtype)
