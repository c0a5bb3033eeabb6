"""The factor log2(e) / temperature is kept as a tensor, beside the temperature, dtype and device that it was made for; another one of these makes it anew."""

import math

import torch

OPERATION = "softmax"
FUNCTION = "Softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class Softmax(torch.nn.Module):
    """Softmax of x / temperature in base two; ``temperature`` may be set between calls."""

    def __init__(self, temperature=1.0):
        super().__init__()
        self.temperature = temperature

    def forward(self, x):
        """Softmax over the last dimension."""
        if not x.numel():
            return torch.empty_like(x)
        wide = x.double() if x.dtype == torch.float64 else x.float()
        made_for = self.temperature, wide.dtype, x.device
        made = self.__dict__.get("_kept")
        if made is None or made[0] != made_for:
            with torch.inference_mode(False):
                factor = torch.full((), math.log2(math.e) / self.temperature, dtype=wide.dtype, device=x.device)
            made = self.__dict__["_kept"] = made_for, factor
        top = wide.detach().amax(dim=-1, keepdim=True)
        e = ((wide - top) * made[1]).exp2()
        return (e / e.sum(dim=-1, keepdim=True)).to(x.dtype)
