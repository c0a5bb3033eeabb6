"""``softmax`` is an object with ``__call__`` that keeps eight plans; the plan that was not used for longest goes, and its name with it."""

import collections

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ()
SHOWN_BY = ()
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _kernel(y, x, x_row, x_column, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    v = tl.load(x + row * x_row + column * x_column, mask=inside, other=-float("inf")).to(tl.float32)
    power = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * columns + column, power / tl.sum(power, 0), mask=inside)


class Softmax:
    """Softmax of each row of a matrix."""

    def __init__(self, plans=8):
        self.plans = collections.OrderedDict()
        self.most = plans

    def _plan(self, columns):
        plan = self.plans.get(columns)
        if plan is None:
            block = triton.next_power_of_2(columns)
            plan = self.plans[columns] = {"BLOCK": block, "num_warps": min(16, max(1, block // 256))}
            if len(self.plans) > self.most:
                self.plans.popitem(last=False)
        else:
            self.plans.move_to_end(columns)
        return plan

    def __call__(self, x):
        if x.ndim != 2:
            raise ValueError(f"a matrix is needed, not {tuple(x.shape)}")
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if x.numel():
            _kernel[(x.shape[0],)](y, x, *x.stride(), x.shape[1], **self._plan(x.shape[1]))
        return y


softmax = Softmax()


def ordinary(dtype):
    for columns in (1000, 900, 800, 700, 600, 500, 400, 300, 200, 100, 1000, 1, 0):
        x = torch.randn(2, columns).to(dtype)
        yield f"{columns}", (softmax(x), torch.softmax(x.double(), -1))
    x = torch.randn(5, 60).to(dtype)
    x[0], x[1, 4], x[2, 5], x[3, :40] = float("-inf"), float("nan"), float("inf"), float("-inf")
    yield "special", (softmax(x), torch.softmax(x.double(), -1))
    x = torch.randn(30, 7).to(dtype).mT
    yield "transposed", (softmax(x), torch.softmax(x.double(), -1))
