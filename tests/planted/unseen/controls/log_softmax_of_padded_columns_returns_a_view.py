"""Columns are padded by -inf to a multiple of 64, and the answer is a view of the padded memory whose rows lie apart."""

import torch

OPERATION = "log_softmax"
FUNCTION = "PaddedLogSoftmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


class PaddedLogSoftmax(torch.nn.Module):
    def __init__(self, dim=-1, multiple=64):
        super().__init__()
        self.dim, self.multiple = dim, multiple

    def forward(self, x):
        moved = x.transpose(self.dim, -1)
        columns = moved.shape[-1]
        padded = torch.nn.functional.pad(moved.float(), (0, -columns % self.multiple), value=float("-inf"))
        return torch.log_softmax(padded, -1).to(x.dtype)[..., :columns].transpose(self.dim, -1)


def ordinary(dtype):
    for shape in ((4, 100), (1, 1), (2, 9000), (500, 3), (0, 4), (4, 0), (2, 3, 17), (4, 64)):
        x = torch.randn(shape).to(dtype)
        for dim in (-1, 0):
            yield f"{shape} {dim}", (PaddedLogSoftmax(dim)(x), torch.log_softmax(x.double(), dim))
    x = torch.randn(5, 60).to(dtype)
    x[0], x[1, 4], x[2, 5], x[3, :40] = float("-inf"), float("nan"), float("inf"), float("-inf")
    yield "special", (PaddedLogSoftmax()(x), torch.log_softmax(x.double(), -1))
    x = torch.randn(30, 7).to(dtype).mT
    yield "transposed", (PaddedLogSoftmax()(x), torch.log_softmax(x.double(), -1))
