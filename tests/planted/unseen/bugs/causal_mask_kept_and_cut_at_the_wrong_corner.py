"""A causal mask is kept between calls and cut to size from its first row and column; that of a longer context is aligned to its last key.

Wrong on: a decoding step of one query over 64 keys after a call with 64 queries over 64 keys (it sees the first key alone), or fewer keys behind a longer cache. Right for the first call, and as long as every call has as many queries as keys.
"""

import torch

from softcheck import variant

EXPECTED = ("masked_not_zero", "nan_mismatch", "nondeterministic", "ulp_exceeds_bound")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class _CausalSoftmax(torch.nn.Module):
    """Softmax of scores [.., queries, keys] whose last query sees the last key."""

    def __init__(self):
        super().__init__()
        self.hidden = torch.zeros(0, 0, dtype=torch.bool)

    def forward(self, x):
        queries, keys = x.shape[-2:]
        kept = self.hidden
        if kept.shape[0] < queries or kept.shape[1] < keys or kept.device != x.device:
            # Made once for the longest context; all shorter ones are a part of it.
            kept = torch.ones(queries, keys, dtype=torch.bool, device=x.device).triu(keys - queries + 1)
            self.hidden = kept
        scores = x.float().masked_fill(kept[:queries, :keys], -float("inf"))
        return torch.softmax(scores, -1).to(x.dtype)


_module = _CausalSoftmax()


@variant(parameters={"causal": "bottom-right"}, call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def softmax(x):
    """Causal softmax of [matrices, queries, keys], aligned to the last key."""
    return _module(x)


def demonstrate():
    torch.manual_seed(0)
    softmax(torch.randn(2, 64, 64))
    x = torch.randn(2, 1, 64)
    return softmax(x), torch.softmax(x.double(), -1)
