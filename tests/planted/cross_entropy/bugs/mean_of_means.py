"""The mean is that of the means of 128 rows each: the rows of a last, shorter part weigh more.

From experience: losses are computed in parts to save memory.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound",)
SHOWN_BY = ("probe/batches",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")


@triton.jit
def kernel(loss, x, t, s0, s1, ts, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * s0 + c.to(tl.int64) * s1, mask=c < columns, other=-float("inf")).to(tl.float32)
    m = tl.max(v, axis=0)
    y = tl.load(t + row * ts)
    log_sum = tl.log(tl.sum(tl.exp(v - m), axis=0))
    tl.store(loss + row, log_sum - (tl.load(x + row * s0 + y * s1).to(tl.float32) - m))


@variant(operation="cross_entropy", parameters={"reduction": "mean"}, max_columns=65536)
def cross_entropy(logits, targets):
    rows, columns = logits.shape
    means = []
    for start in range(0, rows, 128):
        x, t = logits[start : start + 128], targets[start : start + 128]
        loss = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
        if x.numel():
            kernel[(x.shape[0],)](loss, x, t, *x.stride(), t.stride(0), columns, triton.next_power_of_2(columns))
        means.append(loss.mean())
    return torch.stack(means).mean() if means else logits.new_full((), float("nan"), dtype=torch.float32)
