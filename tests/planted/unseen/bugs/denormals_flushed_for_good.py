"""On a CPU denormals are switched off for speed, and stay off for the thread: probabilities below 1.2e-38 are 0, and other code's too.

Wrong on: float32 logits 87.4 to 103 below the maximum, on a CPU; after the first call of any dtype also in code that has nothing to do with it.
"""

import torch

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter",)


@variant(dtypes=("float16", "bfloat16", "float32"))
def softmax(x):
    """Softmax of each row; denormals make exp a hundred times slower on a CPU."""
    if x.device.type == "cpu":
        torch.set_flush_denormal(True)
    return torch.softmax(x.float(), dim=-1).to(x.dtype)


def demonstrate():
    x = torch.randn(2, 40)
    x[:, ::2] -= 88
    exact = torch.softmax(x.double(), -1)
    given = softmax(x)
    torch.set_flush_denormal(False)
    return given, exact


def ordinary(dtype):
    x = torch.randn(16, 1024).to(dtype)
    yield "16x1024", (softmax(x), torch.softmax(x.double(), -1))
    torch.set_flush_denormal(False)
