"""Tokens behind those that make up ``top_p`` are dropped, and with 1 for all of them a running sum that is rounded above 1 drops the last ones.

Wrong on: some rows with a few likely tokens and many unlikely ones (randn times 3, 1000 columns: one in ten), whose last ones get 0. Right elsewhere.
"""

import torch

OPERATION = "softmax"
EXPECTED = ("ulp_exceeds_bound", "order_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


def softmax(logits, temperature=1.0, top_p=1.0):
    """Probabilities to sample from, [rows, columns]: the most likely ones that have ``top_p`` together, and 0 for the others."""
    probabilities = torch.softmax(logits.float() / temperature, dim=-1)
    ordered, order = probabilities.sort(dim=-1, descending=True)
    dropped = ordered.cumsum(dim=-1) > top_p
    # The token that reaches top_p stays, and so does the first.
    dropped = torch.cat((torch.zeros_like(dropped[..., :1]), dropped[..., :-1]), dim=-1)
    ordered = ordered.masked_fill(dropped, 0.0)
    ordered = ordered / ordered.sum(dim=-1, keepdim=True)
    return torch.zeros_like(probabilities).scatter(-1, order, ordered).to(logits.dtype)


def _both(x, temperature=1.0):
    return softmax(x, temperature), torch.softmax(x.double() / temperature, -1)


def demonstrate():
    torch.manual_seed(0)
    return _both(3 * torch.randn(64, 1000))


def ordinary(dtype):
    torch.manual_seed(3)
    for shape, temperature in (((8, 781), 1.0), ((8, 1024), 2.0)):
        yield f"{shape}", _both(torch.randn(shape).to(dtype), temperature)
