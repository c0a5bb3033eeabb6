"""The factor log2(e) / temperature is made at the first call and kept; a temperature that is set later changes nothing.

Wrong on: calls after ``module.temperature`` was set anew, as a schedule sets it every epoch; right otherwise.
"""

import math

import torch

OPERATION = "softmax"
FUNCTION = "Softmax"
EXPECTED = ("ulp_exceeds_bound", "nondeterministic")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


class Softmax(torch.nn.Module):
    """Softmax of x / temperature in base two; ``temperature`` may be set between calls."""

    def __init__(self, temperature=1.0):
        super().__init__()
        self.temperature = temperature
        self._factor = None

    def forward(self, x):
        """Softmax over the last dimension."""
        if not x.numel():
            return torch.empty_like(x)
        if self._factor is None:
            self._factor = math.log2(math.e) / self.temperature
        wide = x.double() if x.dtype == torch.float64 else x.float()
        top = wide.detach().amax(dim=-1, keepdim=True)
        e = ((wide - top) * self._factor).exp2()
        return (e / e.sum(dim=-1, keepdim=True)).to(x.dtype)


def demonstrate():
    torch.manual_seed(0)
    module, x = Softmax(), torch.randn(4, 30)
    module(x)
    module.temperature = 0.5
    return module(x), torch.softmax(x.double() / 0.5, -1)
