"""Where few columns are hidden they are listed, as many for each row as twice the average; a row that hides more than that shows the rest.

Wrong on: a batch of full sequences and one or two short ones, of which the average hides less than an eighth of the columns.
"""

import torch

OPERATION = "softmax"
EXPECTED = ("masked_not_zero", "sum_violation", "ulp_exceeds_bound", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def softmax(x, mask=None):
    """Softmax of the columns where ``mask``, of a shape that broadcasts, is True. A row without any is NaN."""
    wide = x.float()
    if mask is not None and x.numel():
        hidden = mask.logical_not().expand(x.shape)
        columns = x.shape[-1]
        average = float(hidden.sum()) * columns / x.numel()
        if 0 < average < columns / 8:
            # Scattered: the mask is not read again for the tiles that hide nothing.
            room = min(columns, 8 + 2 * round(average))
            values, places = hidden.to(torch.uint8).topk(room, dim=-1)
            shown = wide.gather(-1, places)
            wide = wide.scatter(-1, places, torch.where(values > 0, float("-inf"), shown))
        else:
            wide = wide.masked_fill(hidden, float("-inf"))
    return torch.softmax(wide, -1).to(x.dtype)


def _both(x, mask):
    return softmax(x, mask), torch.softmax(x.double().masked_fill(~mask, float("-inf")), -1)


def demonstrate():
    lengths = torch.tensor([256] * 14 + [250, 60])
    return _both(torch.randn(16, 256), torch.arange(256) < lengths[:, None])


def ordinary(dtype):
    x = torch.randn(8, 200).to(dtype)
    yield "plain", (softmax(x), torch.softmax(x.double(), -1))
    yield "half", _both(x, torch.rand(8, 200) < 0.5)
    yield "a tenth", _both(x, torch.rand(8, 200) < 0.9)
    yield "causal", _both(torch.randn(90, 90).to(dtype), torch.ones(90, 90, dtype=torch.bool).tril())
    yield "padded", _both(x, torch.arange(200) < torch.tensor([200, 180, 150, 90, 60, 200, 40, 100])[:, None])
