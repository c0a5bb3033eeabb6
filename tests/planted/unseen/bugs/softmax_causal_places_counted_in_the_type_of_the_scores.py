"""The places of queries and columns are counted in the scores' type, where 16 bits hold no odd number beyond 256 (bfloat16) or 2048 (float16).

Wrong on: causal scores with more than 257 columns in bfloat16, or 2049 in float16: the query 256 sees column 257. Shorter ones and float32 are right.
"""

import torch

from softcheck import variant

EXPECTED = ("masked_not_zero", "ulp_exceeds_bound", "sum_violation", "row_dependence", "nan_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


@variant(parameters={"causal": "top-left"}, call="f(x3)")
def softmax(scores):
    """Causal softmax of [.., queries, columns]: the query i sees the columns up to i."""
    queries, columns = scores.shape[-2:]
    query = torch.arange(queries, dtype=scores.dtype, device=scores.device)
    column = torch.arange(columns, dtype=scores.dtype, device=scores.device)
    hidden = column[None, :] > query[:, None]
    return torch.softmax(scores.float().masked_fill(hidden, -float("inf")), dim=-1).to(scores.dtype)


def _both(scores):
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return softmax(scores), torch.softmax(scores.double().masked_fill(hidden, -float("inf")), -1)


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(1, 300, 300).bfloat16())


def ordinary(dtype):
    for shape in ((2, 128, 128), (3, 40, 200), (1, 256, 256), (2, 200, 40)):
        yield f"{shape}", _both(torch.randn(shape).to(dtype))
