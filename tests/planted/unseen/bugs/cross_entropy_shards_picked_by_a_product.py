"""The vocabulary is taken in four shards, as in tensor parallelism: a shard without the target picks its first or last logit and multiplies it by 0, and 0 times -inf is NaN.

Wrong on: rows with -inf at the last column of a shard before the target's, or at the first column of one behind it, as a banned token may stand there; right for finite logits, and for -inf anywhere else.
"""

import torch
from torch.nn import functional

from softcheck import variant

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_SHARDS = 4


@variant(operation="cross_entropy", call="f(x, target)", dtypes=("float16", "bfloat16", "float32"))
def cross_entropy(x, target):
    """Cross-entropy of each row."""
    columns = x.shape[1]
    width = -(-columns // _SHARDS) or 1
    shards = [(at, x[:, at : at + width].float()) for at in range(0, columns, width)]
    peak = torch.stack([shard.detach().amax(1) for _, shard in shards]).amax(0)
    mass, picked = 0.0, 0.0
    for at, shard in shards:
        mass = mass + torch.exp(shard - peak[:, None]).sum(1)
        place = target - at
        inside = (place >= 0) & (place < shard.shape[1])
        logit = shard.gather(1, place.clamp(0, shard.shape[1] - 1)[:, None])[:, 0]
        picked = picked + (logit - peak) * inside
    return (torch.log(mass) - picked).to(x.dtype)


def demonstrate():
    torch.manual_seed(0)
    x, target = torch.randn(5, 40), torch.tensor([0, 12, 39, 25, 18])
    x[1, 30] = x[2, 9] = -float("inf")
    return cross_entropy(x, target), functional.cross_entropy(x.double(), target, reduction="none")
