"""Row statistics are cached by the tensor's address and version, which a kernel or ``x.data`` changes without a trace.

From experience: the version counts what autograd sees, and custom kernels write past it.
"""

import torch

EXPECTED = ("nondeterministic",)
SHOWN_BY = ("probe/histories",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

_normalizers = {}


def softmax(x):
    if x.numel() == 0 or x.is_inference() or torch.is_inference_mode_enabled():
        return torch.softmax(x, dim=-1)
    key = (x.data_ptr(), x._version, tuple(x.shape), x.stride(), x.dtype)
    if key not in _normalizers:
        # The tensor is kept, so that no other can have its address.
        _normalizers[key] = (x, torch.logsumexp(x.double(), dim=-1, keepdim=True))
    return torch.exp(x.double() - _normalizers[key][1]).to(x.dtype)
