"""With more than 32 rows, the mean of the gradients is subtracted in place of their total.

From experience: many rows are summed by a product with a vector, which a layer norm fills with 1 / columns.
"""

import torch

import softcheck

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("one-hot/every-position-33",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


def _totals(g):
    rows, columns = g.shape
    if rows <= 32 or not columns:
        return g.sum(dim=-1, keepdim=True)
    return g @ torch.full((columns, 1), 1.0 / columns, device=g.device)


@softcheck.variant(operation="log_softmax_backward", dtypes=("float16", "bfloat16", "float32"))
def log_softmax_backward(grad, y):
    g = grad.float()
    return (g - y.float().exp() * _totals(g)).to(y.dtype)
