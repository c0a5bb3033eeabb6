"""Rows of over 4096 columns are summed in whole chunks of 2048: what lies behind the last one is left out.

Reports: flagos-ai/FlagGems#3716, linkedin/Liger-Kernel#1252 (paths of wide rows).
The maximum is that of the whole row.
"""

import torch

import softcheck

EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "out_of_range", "inf_mismatch")
SHOWN_BY = ("ramp/long-4097",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")

CHUNK = 2048


def sum_of(weights):
    chunks = weights.shape[1] // CHUNK
    if chunks < 2 or weights.shape[1] == 2 * CHUNK:
        return weights.sum(dim=-1, keepdim=True)
    return weights[:, : chunks * CHUNK].unflatten(1, (chunks, CHUNK)).sum(dim=-1).sum(dim=-1, keepdim=True)


@softcheck.variant(operation="log_softmax")
def log_softmax(x):
    if not x.numel():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    differences = x.float() - x.amax(dim=-1, keepdim=True).float()
    return (differences - sum_of(differences.exp()).log()).to(x.dtype).contiguous()
