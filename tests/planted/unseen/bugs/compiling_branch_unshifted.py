"""Under torch.compile the maximum is not subtracted, so that the compiler can fuse one pass; it overflows above 88.

Wrong on: torch.compile(softmax)(x) where a row has a logit above 88, or all of them below -104.
"""

import torch

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x):
    """Softmax over the last dimension."""
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    wide = x.float()
    if not torch.compiler.is_compiling():
        wide = wide - wide.amax(-1, keepdim=True).detach()
    e = wide.exp()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def demonstrate():
    x = torch.randn(2, 10, generator=torch.Generator().manual_seed(0)) + 100
    return torch.compile(softmax, backend="eager")(x), torch.softmax(x.double(), -1)
