"""A module that keeps its causal mask, makes it anew where longer scores come, and moves it where they lie."""

import torch

OPERATION = "softmax"
DECLARE = "max_columns=4096"
FUNCTION = "CausalSoftmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class CausalSoftmax(torch.nn.Module):
    """Softmax of scores [.., queries, keys] in which query i sees the keys up to i."""

    def __init__(self, max_length=64):
        super().__init__()
        self.register_buffer("future", torch.ones(max_length, max_length, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, scores, is_causal=True):
        queries, keys = scores.shape[-2:]
        wide = scores.float()
        if is_causal:
            longest = max(queries, keys)
            if longest > self.future.shape[0] or self.future.device != scores.device:
                longest = max(longest, self.future.shape[0])
                self.future = torch.ones(longest, longest, dtype=torch.bool, device=scores.device).triu(1)
            wide = wide.masked_fill(self.future[:queries, :keys], float("-inf"))
        return torch.softmax(wide, dim=-1).to(scores.dtype)


def ordinary(dtype):
    kept = CausalSoftmax()
    for shape in (
        (8, 8),
        (2, 3, 17, 40),
        (1, 1, 100, 30),
        (2, 1, 1),
        (2, 130, 130),
        (3, 5, 5),
        (0, 4, 4),
        (2, 4, 0),
        (1, 9),
    ):
        x = torch.randn(shape).to(dtype)
        if x.numel() > 20:
            x[..., 0, -1] = float("nan") if shape[-1] % 2 else float("inf")
        hidden = torch.ones(shape[-2:], dtype=torch.bool).triu(1)
        yield str(shape), (kept(x), torch.softmax(x.double().masked_fill(hidden, float("-inf")), -1))
    x = torch.randn(12, 12).to(dtype).mT
    yield (
        "transposed",
        (kept(x), torch.softmax(x.double().masked_fill(torch.ones(12, 12).triu(1).bool(), float("-inf")), -1)),
    )
