"""Plans are kept by the type's kind and the width; bfloat16 after float16 of that width is read with float16's code."""

import torch

EXPECTED = ("ulp_exceeds_bound", "sum_violation", "nan_mismatch", "nondeterministic", "wrong_dtype", "inf_mismatch")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16")
BACKENDS = ("interpreter", "cuda")


class Plan:
    """The way rows of a width are read: 16-bit patterns as the type that the plan was made for."""

    def __init__(self, x):
        self.format = x.dtype

    def run(self, x):
        patterns = x.contiguous().view(torch.int16)
        return torch.softmax(patterns.view(self.format).float(), -1)


_plans = {}


def softmax(x):
    key = (x.element_size(), x.dtype.is_floating_point, x.size(1))
    plan = _plans.setdefault(key, Plan(x))
    return plan.run(x).to(x.dtype)


def demonstrate():
    softmax(torch.randn(3, 11).half())
    x = torch.randn(3, 11).bfloat16()
    return softmax(x), torch.softmax(x.double(), -1)
