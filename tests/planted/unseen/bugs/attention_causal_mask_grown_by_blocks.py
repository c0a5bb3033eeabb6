"""The kept causal mask is doubled where a longer sequence comes: the old one is copied to both ends of the diagonal, and the block above it stays visible.

Wrong on: sequences longer than 256, whose first queries see keys of the future.
"""

import torch

OPERATION = "attention"
FUNCTION = "CausalAttention"
EXPECTED = ("ulp_exceeds_bound", "nan_mismatch", "out_of_range")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class CausalAttention(torch.nn.Module):
    """Causal attention of [batch, heads, length, head_dim], from the first key on, with a mask that is made once."""

    def __init__(self, max_length=256):
        super().__init__()
        visible = torch.ones(max_length, max_length, dtype=torch.bool).tril()
        self.register_buffer("visible", visible, persistent=False)

    def _grow(self, length):
        while self.visible.shape[0] < length:
            old = self.visible
            size = old.shape[0]
            grown = old.new_ones(2 * size, 2 * size)
            grown[:size, :size] = old
            grown[size:, size:] = old
            self.visible = grown

    def forward(self, query, key, value, is_causal=True):
        queries, keys = query.shape[-2], key.shape[-2]
        with torch.autocast(query.device.type, enabled=False):
            scores = (query.float() @ key.float().mT) * query.shape[-1] ** -0.5
            if is_causal:
                self._grow(max(queries, keys))
                visible = self.visible[:queries, :keys].to(scores.device)
                scores = scores.masked_fill(~visible, float("-inf"))
            return (scores.softmax(-1) @ value.float()).to(query.dtype)


def _both(q, k, v):
    scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    exact = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v.double()
    return CausalAttention()(q, k, v), exact


def demonstrate():
    return _both(*(torch.randn(1, 2, 300, 64) for _ in range(3)))


def ordinary(dtype):
    yield "128", _both(*(torch.randn(2, 3, 128, 64).to(dtype) for _ in range(3)))
    yield "256", _both(*(torch.randn(1, 1, 256, 64).to(dtype) for _ in range(3)))
