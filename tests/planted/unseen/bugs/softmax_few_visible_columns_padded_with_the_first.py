"""Few visible columns are gathered; shorter rows are padded with column 0, to which the padding scatters its zeros.

Wrong on: less than a quarter of the columns visible in each row, not as many in each, in rows that see column 0 and are not the longest. Right elsewhere.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(fully_masked="zero", call="f(x, keep)")
def softmax(logits, mask):
    """Softmax over the tokens that a grammar allows, [.., columns]; 0 for the others, and in rows that allow none."""
    mask = mask.expand(logits.shape)
    if not logits.numel():
        return torch.zeros_like(logits)
    dead = ~mask.any(dim=-1, keepdim=True)
    most = int(mask.sum(dim=-1).max())
    if 4 * most > logits.shape[-1]:
        wide = logits.float().masked_fill(~mask, -float("inf"))
        return torch.softmax(wide, dim=-1).masked_fill(dead, 0.0).to(logits.dtype)
    column = mask.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)[..., :most]
    padding = ~mask.gather(-1, column)
    column = column.masked_fill(padding, 0)
    picked = logits.gather(-1, column).float().masked_fill(padding, -float("inf"))
    found = torch.softmax(picked, dim=-1).masked_fill(dead, 0.0)
    # A row that is NaN is so in hidden columns too.
    others = torch.zeros(logits.shape, dtype=torch.float32, device=logits.device)
    others = others.masked_fill(found.isnan().any(dim=-1, keepdim=True), float("nan"))
    return others.scatter(-1, column, found).to(logits.dtype)


def _both(x, keep):
    hidden = torch.softmax(x.double().masked_fill(~keep, -float("inf")), -1)
    return softmax(x, keep), hidden.masked_fill(~keep.any(-1, keepdim=True), 0.0)


def demonstrate():
    torch.manual_seed(0)
    keep = torch.zeros(2, 40, dtype=torch.bool)
    keep[0, :3] = keep[1, 10:17] = True
    return _both(torch.randn(2, 40), keep)


def ordinary(dtype):
    x = torch.randn(16, 1024).to(dtype)
    yield "most", _both(x, torch.rand(16, 1024) < 0.7)
    yield "prefixes", _both(x, torch.arange(1024)[None] < torch.arange(500, 516)[:, None])
    yield "one list for all", _both(x, (torch.arange(1024) % 9 == 0).expand(16, 1024))
    yield "none", _both(x[:2], torch.zeros(2, 1024, dtype=torch.bool))
