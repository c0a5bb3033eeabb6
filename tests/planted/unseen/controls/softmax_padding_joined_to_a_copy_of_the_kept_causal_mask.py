"""The causal mask of each size is kept by an lru_cache, and joined to a mask of any shape that broadcasts in a new tensor, whatever the order of calls."""

import functools

import torch

OPERATION = "softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@functools.lru_cache(maxsize=32)
def _future(queries, keys, device):
    return torch.ones(queries, keys, dtype=torch.bool, device=device).triu(1)


def softmax(scores, mask=None, is_causal=False):
    """Softmax of scores [.., queries, keys]; ``mask`` is True where a key is seen, or is added. A query that sees no key is NaN."""
    wide = scores.float()
    if mask is not None and mask.dtype == torch.bool:
        wide = wide.masked_fill(mask.logical_not(), float("-inf"))
    elif mask is not None:
        wide = wide + mask.float()
    if is_causal:
        if scores.dim() < 2:
            raise ValueError(f"causal scores have queries and keys, but these have the shape {tuple(scores.shape)}")
        wide = wide.masked_fill(_future(*scores.shape[-2:], scores.device), float("-inf"))
    return torch.softmax(wide, -1).to(scores.dtype)


def ordinary(dtype):
    for shape in ((3, 20, 20), (2, 2, 7, 30), (30, 7), (0, 4), (4, 0)):
        x = torch.randn(shape).to(dtype)
        future = torch.ones(shape[-2:], dtype=torch.bool).triu(1)
        for seen in (torch.rand(shape[-1]) < 0.7, torch.rand(shape) < 0.7):
            wide = x.double()
            yield f"{shape} masked", (softmax(x, seen), wide.masked_fill(~seen, float("-inf")).softmax(-1))
            exact = wide.masked_fill(~seen | future, float("-inf")).softmax(-1)
            yield f"{shape} both", (softmax(x, seen, is_causal=True), exact)
            exact = wide.masked_fill(future, float("-inf")).softmax(-1)
            yield f"{shape} causal", (softmax(x, is_causal=True), exact)
            yield f"{shape} plain", (softmax(x), wide.softmax(-1))
