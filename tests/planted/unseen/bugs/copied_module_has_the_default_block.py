"""The rule for the block is a lambda, which can't be pickled; a module that was copied or loaded has blocks of 1024, of one which holds a row.

Wrong on: ``copy.deepcopy(module)``, as for moving averages, and ``torch.load`` of a whole model, with rows wider than 1024. Others are right."""

import copy

import torch
import triton
import triton.language as tl

EXPECTED = ("ulp_exceeds_bound", "unwritten_output", "sum_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _row(y, x, row_step, column_step, n, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK).to(tl.int64)
    v = tl.load(x + r * row_step + c * column_step, mask=c < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + c, e / tl.sum(e, 0), mask=c < n)


class Softmax(torch.nn.Module):
    """Softmax over the last dimension of a matrix, a row in one block."""

    def __init__(self):
        super().__init__()
        self.block = lambda n: triton.next_power_of_2(n)  # noqa: PLW0108 - what can't be pickled

    def __getstate__(self):
        state = self.__dict__.copy()
        del state["block"]
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        self.block = _default_block

    def forward(self, x):
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if y.numel():
            rows, n = x.shape
            _row[(rows,)](y, x, *x.stride(), n, self.block(n))
        return y


def _default_block(n):
    return min(1024, triton.next_power_of_2(n))


softmax = Softmax()


def demonstrate():
    torch.manual_seed(0)
    x = torch.randn(3, 1500)
    return copy.deepcopy(softmax)(x), torch.softmax(x.double(), -1)
