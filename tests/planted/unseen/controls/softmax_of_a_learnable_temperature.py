"""A module with a learnable temperature of 0.7: the maximum is subtracted before the division, and the temperature has a gradient."""

import torch

OPERATION = "softmax"
FUNCTION = "TemperatureSoftmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class TemperatureSoftmax(torch.nn.Module):
    """Softmax of x / temperature."""

    def __init__(self, temperature=0.7, dim=-1):
        super().__init__()
        self.temperature = torch.nn.Parameter(torch.tensor(float(temperature)))
        self.dim = dim

    def forward(self, logits):
        if not logits.numel():
            return torch.empty_like(logits)
        x = logits.float()
        below = (x - x.amax(self.dim, keepdim=True).detach()) / self.temperature.float()
        return torch.softmax(below, self.dim).to(logits.dtype)


def ordinary(dtype):
    for name, x in _inputs(dtype):
        yield name, (TemperatureSoftmax()(x), torch.softmax(x.double() / 0.7, -1))


def _inputs(dtype):
    for shape in ((4, 100), (1, 1), (2, 9000), (500, 3), (0, 4), (4, 0), (2, 3, 17)):
        yield str(shape), torch.randn(shape).to(dtype)
    yield "transposed", torch.randn(30, 7).to(dtype).mT
    x = torch.randn(5, 60).to(dtype)
    x[0], x[1, 4], x[2, 5], x[3, :40] = float("-inf"), float("nan"), float("inf"), float("-inf")
    yield "special", x
    yield "large", (torch.randn(3, 50) * 1e4).to(dtype)
