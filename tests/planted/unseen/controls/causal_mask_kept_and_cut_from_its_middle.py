"""Right: one causal mask is kept for all sizes, twice as tall as wide, and the rows are cut from it where the last query sees the last key."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class _CausalSoftmax(torch.nn.Module):
    """Softmax of scores [.., queries, keys] whose last query sees the last key."""

    def __init__(self):
        super().__init__()
        self.kept = {}

    def _hidden(self, queries, keys, device):
        kept = self.kept.get(device)
        if kept is None or kept.shape[1] < max(queries, keys):
            size = max(64, queries, keys)
            # Row size + i hides the columns behind i; rows above it see nothing.
            kept = torch.ones(2 * size, size, dtype=torch.bool, device=device).triu(1 - size)
            self.kept[device] = kept
        first = kept.shape[1] + keys - queries
        return kept[first : first + queries, :keys]

    def forward(self, x):
        hidden = self._hidden(*x.shape[-2:], x.device)
        return torch.softmax(x.float().masked_fill(hidden, -float("inf")), -1).to(x.dtype)


_module = _CausalSoftmax()


@variant(
    parameters={"causal": "bottom-right"}, call="f(x)", dtypes=("float16", "bfloat16", "float32"), max_columns=4096
)
def softmax(x):
    """Causal softmax of [matrices, queries, keys], aligned to the last key."""
    return _module(x)
