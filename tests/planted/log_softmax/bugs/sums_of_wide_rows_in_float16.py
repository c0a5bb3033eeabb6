"""Rows of over 1024 columns are summed in 32 lanes of the input's type: small terms are lost, 2048 + 1 is 2048.

Reports: triton-lang/triton#6974, pytorch/executorch#20090, tenstorrent/tt-metal#52045.
"""

import torch

import softcheck

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("normal/scale-2-2049",)
DTYPES = ("float16",)
BACKENDS = ("interpreter", "cuda")

LANES = 32


def sum_of(weights, dtype):
    if weights.shape[1] <= 1024:
        return weights.sum(dim=-1, keepdim=True)
    lanes = torch.zeros((weights.shape[0], LANES), dtype=dtype, device=weights.device)
    for start in range(0, weights.shape[1], LANES):
        part = weights[:, start : start + LANES].to(dtype)
        lanes[:, : part.shape[1]] += part
    return lanes.float().sum(dim=-1, keepdim=True)


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    differences = x.float() - x.amax(dim=-1, keepdim=True).float()
    return (differences - sum_of(differences.exp(), x.dtype).log()).to(x.dtype).contiguous()
