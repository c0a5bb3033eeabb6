"""Right: a tree: columns are folded in halves, first their maxima, then their exponentials, in float64."""

import torch

from softcheck import variant

EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@variant(operation="logsumexp", call="f(x)", dtypes=("float16", "bfloat16", "float32"))
def logsumexp(x):
    """Log-sum-exp of each row, float32 [rows]; -inf for a row without columns."""
    with torch.no_grad():
        wide = x.double()
        if not wide.shape[1]:
            return torch.full((wide.shape[0],), -float("inf"), device=x.device)
        largest = _folded(wide, torch.maximum)
        shift = torch.where(largest.isinf(), 0.0, largest)
        total = _folded(torch.exp(wide - shift), torch.add)
        return (shift + torch.log(total))[:, 0].float()


def _folded(row, join):
    while row.shape[1] > 1:
        half = (row.shape[1] + 1) // 2
        front, back = row[:, :half], row[:, half:]
        row = torch.cat((join(front[:, : back.shape[1]], back), front[:, back.shape[1] :]), dim=1)
    return row
