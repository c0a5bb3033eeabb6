"""Few visible columns are gathered; shorter rows are padded, and the padding scatters its zeros to a column behind the last one, which is cut off.

The answer of float32 is a view of the wider matrix.
"""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
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
    picked = logits.gather(-1, column).float().masked_fill(padding, -float("inf"))
    found = torch.softmax(picked, dim=-1).masked_fill(dead, 0.0)
    # A row that is NaN is so in hidden columns too.
    wider = (*logits.shape[:-1], logits.shape[-1] + 1)
    others = torch.zeros(wider, dtype=torch.float32, device=logits.device)
    others = others.masked_fill(found.isnan().any(dim=-1, keepdim=True), float("nan"))
    column = column.masked_fill(padding, logits.shape[-1])
    return others.scatter(-1, column, found)[..., :-1].to(logits.dtype)


def _both(x, keep):
    hidden = torch.softmax(x.double().masked_fill(~keep, -float("inf")), -1)
    return softmax(x, keep), hidden.masked_fill(~keep.any(-1, keepdim=True), 0.0)


def ordinary(dtype):
    x = torch.randn(16, 1024).to(dtype)
    yield "most", _both(x, torch.rand(16, 1024) < 0.7)
    yield "prefixes", _both(x, torch.arange(1024)[None] < torch.arange(500, 516)[:, None])
    yield "one list for all", _both(x, (torch.arange(1024) % 9 == 0).expand(16, 1024))
    keep = torch.zeros(2, 40, dtype=torch.bool)
    keep[0, :3] = keep[1, 10:17] = True
    yield "few", _both(x[:2, :40], keep)
    yield "none", _both(x[:2], torch.zeros(2, 1024, dtype=torch.bool))
