"""The causal mask of each size is kept; a mask of the call is joined to it in place, and stays in it for the calls after.

Wrong on: a causal call after one that hid padding with a mask of one or two dimensions, of the same sizes: the padding of that call is hidden still.
"""

import functools

import torch

OPERATION = "softmax"
EXPECTED = (
    "masked_not_zero",
    "ulp_exceeds_bound",
    "nan_mismatch",
    "sum_violation",
    "nondeterministic",
    "row_dependence",
)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@functools.lru_cache(maxsize=32)
def _causal(queries, keys, device):
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril()


def softmax(scores, mask=None, is_causal=False):
    """Softmax of scores [.., queries, keys]. ``mask`` is True where a key is seen; query i sees the keys up to i if causal."""
    visible = None
    if is_causal:
        visible = _causal(*scores.shape[-2:], scores.device)
    if mask is not None:
        if visible is None or mask.dim() > visible.dim():
            visible = mask if visible is None else visible & mask
        else:
            # No need for one more matrix.
            visible &= mask
    wide = scores.float()
    if visible is not None:
        wide = wide.masked_fill(~visible, float("-inf"))
    return torch.softmax(wide, -1).to(scores.dtype)


def _exact(x, visible):
    return torch.softmax(x.double().masked_fill(~visible, float("-inf")), -1)


def demonstrate():
    x, seen = torch.randn(2, 30, 30), torch.ones(30, dtype=torch.bool)
    seen[20:] = False
    softmax(x, seen, is_causal=True)
    return softmax(x, is_causal=True), _exact(x, torch.ones(30, 30, dtype=torch.bool).tril())


def ordinary(dtype):
    _causal.cache_clear()
    x = torch.randn(4, 60, 60).to(dtype)
    tril = torch.ones(60, 60, dtype=torch.bool).tril()
    seen = torch.arange(60) < 50
    yield "plain", (softmax(x), torch.softmax(x.double(), -1))
    yield "causal", (softmax(x, is_causal=True), _exact(x, tril))
    yield "masked", (softmax(x, seen), _exact(x, seen))
    yield "both", (softmax(x, seen, is_causal=True), _exact(x, tril & seen))
