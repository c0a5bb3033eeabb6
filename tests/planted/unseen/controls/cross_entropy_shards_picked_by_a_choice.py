"""Right: the vocabulary is taken in four shards, as in tensor parallelism; the target's logit is chosen in the shard that has it, and 0 in others whatever stands there."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_SHARDS = 4


@variant(operation="cross_entropy", call="f(x, target)", dtypes=("float16", "bfloat16", "float32"))
def cross_entropy(x, target):
    """Cross-entropy of each row."""
    rows, columns = x.shape
    if not columns:
        return torch.full((rows,), float("nan"), dtype=x.dtype, device=x.device)
    width = -(-columns // _SHARDS)
    shards = [(at, x[:, at : at + width].float()) for at in range(0, columns, width)]
    peak = torch.stack([shard.detach().amax(1) for _, shard in shards]).amax(0)
    mass, picked = 0.0, 0.0
    for at, shard in shards:
        mass = mass + torch.exp(shard - peak[:, None]).sum(1)
        place = target - at
        inside = (place >= 0) & (place < shard.shape[1])
        logit = shard.gather(1, place.clamp(0, shard.shape[1] - 1)[:, None])[:, 0]
        picked = picked + torch.where(inside, logit - peak, torch.zeros_like(peak))
    return (torch.log(mass) - picked).to(x.dtype)
