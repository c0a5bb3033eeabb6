"""The vocabulary is cut by ``torch.chunk``, whose parts are rounded up, and the parts' first columns are counted by a quotient that is rounded down.

Wrong on: vocabularies that are no multiple of 8: targets are looked up some columns off, or are in no part, and then weigh 0.
"""

import torch

OPERATION = "cross_entropy"
FUNCTION = "vocab_parallel_cross_entropy"
EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def vocab_parallel_cross_entropy(logits, target, *, world_size=8, label_smoothing=0.0):
    """Megatron's cross-entropy of a vocabulary that lies in parts, with all of the parts on one device."""
    shards = logits.float().chunk(world_size, dim=-1)
    size = max(1, logits.shape[-1] // world_size)
    maximum = torch.stack([shard.detach().amax(-1) for shard in shards]).amax(0)
    total, picked, average = 0.0, 0.0, 0.0
    for rank, shard in enumerate(shards):
        first = rank * size
        below = shard - maximum[:, None]
        mine = (target >= first) & (target < first + min(size, shard.shape[-1]))
        local = torch.where(mine, target - first, 0)
        picked = picked + torch.where(mine, below.gather(1, local[:, None])[:, 0], 0.0)
        total = total + below.exp().sum(-1)
        average = average + below.sum(-1) / logits.shape[-1]
    lse = total.log()
    loss = lse - picked
    return loss if not label_smoothing else (1 - label_smoothing) * loss + label_smoothing * (lse - average)


def _both(x, target):
    exact = torch.nn.functional.cross_entropy(x.double(), target, reduction="none")
    return vocab_parallel_cross_entropy(x, target), exact


def demonstrate():
    return _both(torch.randn(4, 1023), torch.tensor([5, 500, 900, 1022]))


def ordinary(dtype):
    yield "16x1024", _both(torch.randn(16, 1024).to(dtype), torch.randint(0, 1024, (16,)))
    yield "4x128", _both(torch.randn(4, 128).to(dtype), torch.randint(0, 128, (4,)))
