"""``empty_like`` keeps the format of four dense dimensions, such as channels last, while the kernel stores rows one after the other.

Wrong on: four dimensions in ``torch.channels_last`` or dense and permuted; matrices get a packed output, and are right.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "wrong_layout", "unwritten_output")
SHOWN_BY = ("unseen",)
DTYPES = ("float32", "float16")
BACKENDS = ("interpreter", "cuda")


@variant(dimensions=4)
def softmax(x):
    if x.dim() < 4:
        return torch.softmax(x, -1).contiguous()
    y = torch.empty_like(x)
    rows = torch.softmax(x.reshape(-1, x.shape[-1]), -1) if x.numel() else x.reshape(0, 1)
    y.as_strided((y.numel(),), (1,)).copy_(rows.reshape(-1))
    return y


def demonstrate():
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    return softmax(x), torch.softmax(x.double(), -1)
