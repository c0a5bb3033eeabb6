"""Beyond 4096 columns the sum is kept in bfloat16 for the division: up to half an ULP too much, no more."""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("bfloat16",)
BACKENDS = ("interpreter", "cuda")


class WideSoftmax(torch.nn.Module):
    threshold = 4096

    def forward(self, x):
        if x.numel() == 0:
            return torch.empty_like(x)
        e = torch.exp(x.float() - x.float().amax(-1, keepdim=True))
        total = e.sum(-1, keepdim=True)
        if x.size(-1) > self.threshold:
            total = total.to(x.dtype).float()
        return (e / total).to(x.dtype)


softmax_module = WideSoftmax()


def softmax(x):
    return softmax_module(x)


def demonstrate():
    x = torch.randn(8, 5000).bfloat16()
    return softmax(x), torch.softmax(x.double(), -1), x
